import { storedList } from "./StoredList"

// Back and Forward return to the scroll position of a page, as soon as the page is high enough again: its data arrives
// after the address has changed. Another page starts at its top; a changed filter keeps the position.

const remembered = "nightshift.scroll"
const maxRemembered = 50

/** Milliseconds in which a page that grows is scrolled again. */
const restoreTimeout = 3_000

/** Positions by history entry. */
const positions = new Map<string, number>(storedList("sessionStorage", remembered))

const knownEntry = (): string | undefined => {
  const state: unknown = history.state
  return typeof state === "object" && state !== null && "entry" in state ? String(state.entry) : undefined
}

/** The current history entry, which gets a name if it has none. */
const entryHere = (): string => {
  const entry = knownEntry() ?? Math.random().toString(36).slice(2)
  history.replaceState({ entry }, "")
  return entry
}

const pathHere = () => location.hash.split("?")[0]

const inputs = ["wheel", "touchstart", "keydown", "pointerdown"]

let end: (() => void) | undefined

/** Scrolls now and whenever the page changes its height, until the user acts. */
const restore = (position: number) => {
  const scroll = () => scrollTo(0, position)
  const resized = new ResizeObserver(scroll)
  const stop = () => {
    resized.disconnect()
    clearTimeout(timer)
    for (const input of inputs) removeEventListener(input, stop)
    if (end === stop) end = undefined
  }
  const timer = setTimeout(stop, restoreTimeout)
  for (const input of inputs) addEventListener(input, stop, { passive: true })
  end = stop
  resized.observe(document.body)
  scroll()
}

/** Remembers and restores scroll positions from now on. */
export const startScroll = (): void => {
  history.scrollRestoration = "manual"
  let entry = entryHere()
  let path = pathHere()
  restore(positions.get(entry) ?? 0)
  addEventListener(
    "scroll",
    () => {
      if (end !== undefined) return
      positions.delete(entry)
      positions.set(entry, scrollY)
    },
    { passive: true }
  )
  addEventListener("hashchange", () => {
    end?.()
    const isKnown = knownEntry() !== undefined
    entry = entryHere()
    if (isKnown) restore(positions.get(entry) ?? 0)
    else if (pathHere() !== path) scrollTo(0, 0)
    path = pathHere()
  })
  addEventListener("pagehide", () =>
    sessionStorage.setItem(remembered, JSON.stringify([...positions].slice(-maxRemembered)))
  )
}

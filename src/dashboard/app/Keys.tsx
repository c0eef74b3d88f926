import { Fragment } from "preact"
import { useEffect, useState } from "preact/hooks"
import { Dialog } from "./parts/Dialog"
import { go, to } from "./Route"

// Keyboard shortcuts, active while no text field has the focus. Pages with rows listen to `row` events.

const destinations: Readonly<Record<string, readonly [path: string, name: string]>> = {
  o: ["overview", "overview"],
  j: ["jobs", "jobs"],
  q: ["queues", "queues"],
  w: ["workflows", "workflows"],
  s: ["schedules", "schedules"],
  e: ["events", "events"],
  n: ["endpoints", "endpoints"],
  p: ["pods", "processes"],
  d: ["dead", "dead jobs"],
  b: ["bots", "bots"],
  u: ["uploads", "uploads"],
  l: ["limits", "limits"],
  a: ["audit", "audit"],
  h: ["database", "database health"]
}

const acts: Readonly<Record<string, string>> = {
  j: "next",
  k: "previous",
  x: "select",
  r: "requeue",
  c: "cancel",
  Enter: "open"
}

const typing = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))

/** Calls the listener for row shortcuts. Returns a function that unsubscribes. */
export const onRowKey = (listener: (act: string) => void): (() => void) => {
  const listen = (event: Event) => listener((event as CustomEvent<string>).detail)
  addEventListener("row", listen)
  return () => removeEventListener("row", listen)
}

/** What the keyboard opens over the page. */
export type Overlay = "help" | "palette"

/** The key of the command palette, as this machine's keyboard names it. */
export const paletteKey = /Mac|iP(hone|ad)/.test(navigator.platform) ? "⌘ K" : "Ctrl K"

export const useKeys = () => {
  const [shown, setShown] = useState<Overlay>()
  useEffect(() => {
    let going = false
    const listen = (event: KeyboardEvent) => {
      // Leave the search field without clearing it, which the browser would do.
      if (event.key === "Escape" && event.target instanceof HTMLInputElement && event.target.type === "search") {
        event.preventDefault()
        return event.target.blur()
      }
      const isOverlaid = document.querySelector("dialog:modal") !== null
      if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
        event.preventDefault()
        // A form that is open stays open.
        return setShown((now) => (now === "palette" ? undefined : isOverlaid ? now : "palette"))
      }
      if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || isOverlaid) return
      const { key } = event
      const destination = going ? destinations[key] : undefined
      going = key === "g"
      if (destination !== undefined) return go(to(destination[0]))
      if (key === "?") return setShown("help")
      if (key === "/") {
        event.preventDefault()
        const field = document.querySelector<HTMLElement>("[data-search]")
        // A page without a search box searches everything.
        return field === null ? setShown("palette") : field.focus()
      }
      // Let the browser handle Enter on links and buttons.
      if (key === "Enter" && event.target !== document.body) return
      const act = acts[key]
      if (act !== undefined) dispatchEvent(new CustomEvent("row", { detail: act }))
    }
    addEventListener("keydown", listen)
    return () => removeEventListener("keydown", listen)
  }, [])
  return { shown, show: setShown, hide: () => setShown(undefined) }
}

const lines: ReadonlyArray<readonly [keys: string, meaning: string]> = [
  [paletteKey, "find a page, queue, kind, process, execution, job or action"],
  ["/", "search this page, or everything"],
  ["j k", "next / previous row"],
  ["x", "select row"],
  ["Enter", "open row"],
  ["r", "requeue selected jobs or the row"],
  ["c", "cancel selected jobs or the row"],
  ...Object.entries(destinations).map(([key, [, name]]) => [`g ${key}`, name] as const),
  ["?", "show shortcuts"]
]

export const KeyHelp = ({ onClose }: { readonly onClose: () => void }) => (
  <Dialog title="Keyboard shortcuts" onClose={onClose}>
    <dl class="facts keys">
      {lines.map(([keys, meaning]) => (
        <Fragment key={keys}>
          <dt>
            {keys.split(" ").map((key) => (
              <kbd key={key}>{key}</kbd>
            ))}
          </dt>
          <dd>{meaning}</dd>
        </Fragment>
      ))}
    </dl>
  </Dialog>
)

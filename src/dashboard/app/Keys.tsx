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

export const useKeys = () => {
  const [shown, setShown] = useState(false)
  useEffect(() => {
    let going = false
    const listen = (event: KeyboardEvent) => {
      // Leave the search field without clearing it, which the browser would do.
      if (event.key === "Escape" && event.target instanceof HTMLInputElement && event.target.type === "search") {
        event.preventDefault()
        return event.target.blur()
      }
      if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return
      if (document.querySelector("dialog[open]") !== null) return
      const { key } = event
      const destination = going ? destinations[key] : undefined
      going = key === "g"
      if (destination !== undefined) return go(to(destination[0]))
      if (key === "?") return setShown(true)
      if (key === "/") {
        event.preventDefault()
        return document.querySelector<HTMLElement>("[data-search]")?.focus()
      }
      // Let the browser handle Enter on links and buttons.
      if (key === "Enter" && event.target !== document.body) return
      const act = acts[key]
      if (act !== undefined) dispatchEvent(new CustomEvent("row", { detail: act }))
    }
    addEventListener("keydown", listen)
    return () => removeEventListener("keydown", listen)
  }, [])
  return { shown, hide: () => setShown(false) }
}

const lines: ReadonlyArray<readonly [keys: string, meaning: string]> = [
  ["/", "search"],
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

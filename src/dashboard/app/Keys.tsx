import { Fragment } from "preact"
import { useEffect, useState } from "preact/hooks"
import { Dialog } from "./parts/Dialog"
import { go, to } from "./Route"

// Keys work wherever nobody types. A page that has rows hears `row:` events and knows what they mean to it.

const destinations: Readonly<Record<string, readonly [path: string, name: string]>> = {
  o: ["overview", "overview"],
  j: ["jobs", "jobs"],
  q: ["queues", "queues"],
  s: ["schedules", "schedules"],
  p: ["pods", "pods"],
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

/** What a key asked a page with rows to do. */
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
      // Out of a filter and back to the rows; the browser would empty it.
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
      // Enter on a link or a button is the browser's.
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
  ["j k", "next and previous row"],
  ["x", "select the row"],
  ["Enter", "open the row"],
  ["r", "requeue what is selected, or the row"],
  ["c", "cancel what is selected, or the row"],
  ...Object.entries(destinations).map(([key, [, name]]) => [`g ${key}`, name] as const),
  ["?", "this help"]
]

export const KeyHelp = ({ onClose }: { readonly onClose: () => void }) => (
  <Dialog title="Keys" onClose={onClose}>
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

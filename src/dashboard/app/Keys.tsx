import { useEffect, useState } from "preact/hooks"
import { Dialog } from "./parts/Dialog"
import { go, to } from "./Route"

// Keys work wherever nobody types. A page that has rows hears `row:` events and knows what they mean to it.

const destinations: Readonly<Record<string, string>> = {
  o: "overview",
  j: "jobs",
  q: "queues",
  s: "schedules",
  p: "pods",
  d: "dead"
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
      if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return
      if (document.querySelector("dialog[open]") !== null) return
      const { key } = event
      const destination = going ? destinations[key] : undefined
      going = key === "g"
      if (destination !== undefined) return go(to(destination))
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

const lines = [
  ["/", "search"],
  ["j  k", "next and previous row"],
  ["x", "select the row"],
  ["Enter", "open the row"],
  ["r", "requeue what is selected, or the row"],
  ["c", "cancel what is selected, or the row"],
  ["g o", "overview"],
  ["g j", "jobs"],
  ["g q", "queues"],
  ["g s", "schedules"],
  ["g p", "pods"],
  ["g d", "dead jobs"],
  ["?", "this help"]
]

export const KeyHelp = ({ onClose }: { readonly onClose: () => void }) => (
  <Dialog title="Keys" onClose={onClose}>
    <table>
      <tbody>
        {lines.map(([keys, meaning]) => (
          <tr key={keys}>
            <td>
              <code>{keys}</code>
            </td>
            <td>{meaning}</td>
          </tr>
        ))}
      </tbody>
    </table>
  </Dialog>
)

import { useMemo, useState } from "preact/hooks"
import { shownJson } from "../DirectionMarks"
import { read } from "../Route"
import { bytesText } from "../Views"
import { Card } from "./Card"
import { CopyButton } from "./Snippet"

// Renders JSON as a tree with foldable branches. Values are untrusted and rendered only as text. A large value is shown
// in part: long texts are cut, long lists have pages, and branches beyond the limits start folded.

/** Rows and characters that are open at first. */
const maxRows = 200
const maxCharacters = 32 * 1024

/** A branch with more entries starts folded, unless it is the value itself. */
const foldFrom = 20

/** Entries of an open branch that are shown at once. */
const entriesShown = 100

/** Characters of a text that are shown at first. */
const textShown = 300

/** A larger value, in bytes, scrolls in a box of its own. */
const scrollFrom = 4 * 1024

type Branch = Readonly<Record<string, unknown>>

const isBranch = (value: unknown): value is Branch => typeof value === "object" && value !== null

/** About how many characters an entry needs when its branches are folded. */
const lengthOf = (name: string, value: unknown): number =>
  name.length + (typeof value === "string" ? Math.min(textShown, value.length) : 12)

/** The branches that are open at first, from the outside in, as far as they fit. */
const openOf = (root: Branch): WeakSet<object> => {
  const open = new WeakSet<object>([root])
  const found: Array<Branch> = [root]
  let rows = 0
  let characters = 0
  for (const branch of found) {
    const entries = Object.entries(branch).slice(0, entriesShown)
    const length = entries.reduce((sum, [name, value]) => sum + lengthOf(name, value), 0)
    const fits = rows + entries.length <= maxRows && characters + length <= maxCharacters
    if (branch !== root && !(fits && entries.length <= foldFrom)) continue
    open.add(branch)
    rows += entries.length
    characters += length
    found.push(...entries.map(([, value]) => value).filter(isBranch))
  }
  return open
}

const Leaf = ({ value }: { readonly value: unknown }) => {
  const [isWhole, setWhole] = useState(false)
  const isCut = typeof value === "string" && value.length > textShown && !isWhole
  return (
    <span class={`json-${value === null ? "null" : typeof value}`}>
      {shownJson(`${JSON.stringify(isCut ? value.slice(0, textShown) : value)}`)}
      {isCut ? (
        <button type="button" class="link small" onClick={() => setWhole(true)}>
          … show all {value.length.toLocaleString()} characters
        </button>
      ) : null}
    </span>
  )
}

const Folding = ({ open: given, value }: { readonly open: WeakSet<object>; readonly value: Branch }) => {
  const [open, setOpen] = useState(given.has(value) ? given : undefined)
  const [limit, setLimit] = useState(entriesShown)
  const isList = Array.isArray(value)
  const names = Object.keys(value)
  const [before, after] = isList ? ["[", "]"] : ["{", "}"]
  if (names.length === 0) return <span>{before + after}</span>
  const left = names.length - limit
  return (
    <>
      <button
        type="button"
        class="fold"
        aria-expanded={open !== undefined}
        onClick={() => setOpen(open === undefined ? openOf(value) : undefined)}
      >
        {open !== undefined ? before : `${before} … ${names.length} ${isList ? "items" : "fields"} ${after}`}
      </button>
      {open === undefined ? null : (
        <>
          <ul class="json">
            {names.slice(0, limit).map((name, place) => (
              <li key={name}>
                {isList ? null : <span class="json-key">{shownJson(JSON.stringify(name))}: </span>}
                <Node value={value[name]} open={open} />
                {place < names.length - 1 ? "," : ""}
              </li>
            ))}
            {left > 0 ? (
              <li>
                <button type="button" class="link small" onClick={() => setLimit(limit + entriesShown)}>
                  Show {Math.min(entriesShown, left)} of {left.toLocaleString()} more
                </button>
              </li>
            ) : null}
          </ul>
          {after}
        </>
      )}
    </>
  )
}

/** The key of a sealed value: as the service shows it, or as it is stored if the service has no keys. */
const sealedBy = (value: unknown): { readonly key: string; readonly bytes: number } | undefined => {
  if (!isBranch(value) || Object.keys(value).length !== 1) return undefined
  const { $sealed: sealed } = value
  if (typeof sealed === "string") return { key: sealed.split(".", 1)[0] ?? "", bytes: sealed.length }
  return isBranch(sealed) && typeof sealed.key === "string" && typeof sealed.bytes === "number"
    ? { key: sealed.key, bytes: sealed.bytes }
    : undefined
}

/** Whether a value has sealed values without their content: they cannot be stored again. */
export const isUnopened = (value: unknown): boolean =>
  isBranch(value) && ((sealedBy(value) && isBranch(value.$sealed)) || Object.values(value).some(isUnopened))

const Sealed = ({ bytes, by }: { readonly bytes: number; readonly by: string }) => (
  <span class="quiet" title="Only administrators of a service with the key see this value.">
    <span aria-hidden="true">🔒 </span>sealed with key {by}, {bytesText(bytes)}
  </span>
)

const Node = ({ open, value }: { readonly open: WeakSet<object>; readonly value: unknown }) => {
  const sealed = sealedBy(value)
  if (sealed !== undefined) return <Sealed by={sealed.key} bytes={sealed.bytes} />
  return isBranch(value) ? <Folding open={open} value={value} /> : <Leaf value={value} />
}

/** A card with a JSON value. */
export const JsonCard = ({ name, value }: { readonly name: string; readonly value: unknown }) => (
  <Card name={name} title={name[0]?.toUpperCase() + name.slice(1)} content="body">
    <Json label={name} value={value} />
  </Card>
)

/** Saves JSON as a file that is named after the page. */
const download = (label: string, text: string) => {
  const page = read(location.hash).path.at(-1) ?? ""
  const link = document.createElement("a")
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }))
  link.download = `${page.replace(/[^\w.-]+/g, "-").slice(0, 80)}-${label}.json`
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 1_000)
}

/** A foldable JSON value with buttons to copy and to download it. */
export const Json = ({ label, value }: { readonly label: string; readonly value: unknown }) => {
  const open = useMemo(() => (isBranch(value) ? openOf(value) : new WeakSet<object>()), [value])
  const bytes = useMemo(() => new Blob([JSON.stringify(value)]).size, [value])
  const text = useMemo(() => JSON.stringify(value, null, 2), [value])
  const isLarge = bytes > scrollFrom
  return (
    <div class={`json-box ${isLarge ? "large" : ""}`}>
      <div class="tools small">
        {bytes > maxCharacters ? <span class="quiet">{bytesText(bytes)}, shown in part</span> : null}
        <CopyButton label={label} text={text} />
        <button type="button" class="link" onClick={() => download(label, text)} aria-label={`Download ${label}`}>
          Download
        </button>
      </div>
      <div class="mono" {...(isLarge ? { role: "group", "aria-label": label, tabIndex: 0 } : {})}>
        <Node value={value} open={open} />
      </div>
    </div>
  )
}

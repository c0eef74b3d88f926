import { useState } from "preact/hooks"
import { Card } from "./Card"
import { CopyButton } from "./Snippet"

// Renders JSON with foldable branches. Values are untrusted and rendered only as text.

const foldFrom = 20

const Leaf = ({ value }: { readonly value: unknown }) => (
  <span class={`json-${value === null ? "null" : typeof value}`}>{JSON.stringify(value)}</span>
)

const Branch = ({
  depth,
  entries,
  isList
}: {
  depth: number
  entries: ReadonlyArray<readonly [string, unknown]>
  isList: boolean
}) => {
  const [open, setOpen] = useState(depth < 3 && entries.length <= foldFrom)
  const [before, after] = isList ? ["[", "]"] : ["{", "}"]
  if (entries.length === 0) return <span>{before + after}</span>
  return (
    <>
      <button type="button" class="fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? before : `${before} … ${entries.length} ${isList ? "items" : "fields"} ${after}`}
      </button>
      {open ? (
        <>
          <ul class="json">
            {entries.map(([name, value], place) => (
              <li key={name}>
                {isList ? null : <span class="json-key">{JSON.stringify(name)}: </span>}
                <Node value={value} depth={depth + 1} />
                {place < entries.length - 1 ? "," : ""}
              </li>
            ))}
          </ul>
          {after}
        </>
      ) : null}
    </>
  )
}

const Node = ({ depth, value }: { depth: number; value: unknown }) =>
  typeof value === "object" && value !== null ? (
    <Branch depth={depth} entries={Object.entries(value)} isList={Array.isArray(value)} />
  ) : (
    <Leaf value={value} />
  )

/** A card with a JSON value. */
export const JsonCard = ({ name, value }: { readonly name: string; readonly value: unknown }) => (
  <Card name={name} title={name[0]?.toUpperCase() + name.slice(1)} content="body">
    <Json label={name} value={value} />
  </Card>
)

/** A foldable JSON value with a copy button. */
export const Json = ({ label, value }: { readonly label: string; readonly value: unknown }) => (
  <div class="json-box">
    <CopyButton label={label} text={JSON.stringify(value, null, 2)} />
    <div class="mono">
      <Node value={value} depth={0} />
    </div>
  </div>
)

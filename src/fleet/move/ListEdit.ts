import { isMap, isScalar, parseDocument } from "yaml"
import { canonicalJson } from "../../core/CanonicalJson.js"

// Changes the cells of queues in the text of a fleet, and nothing else: comments and the layout of other lines stay.

/** A changed text, and the changed lines with a sign. */
export interface Edited {
  readonly text: string
  readonly lines: ReadonlyArray<string>
}

/** How a list writes the cells of a queue. */
export const written = (cells: ReadonlyArray<string>): string =>
  cells.length === 1 ? (cells[0] ?? "") : `{ cells: [${cells.join(", ")}], by: key }`

const linesOf = (text: string) => text.split("\n")

/** Lines that only one of the texts has. */
const difference = (before: string, after: string): ReadonlyArray<string> => {
  const [old, fresh] = [linesOf(before), linesOf(after)]
  return [
    ...old.filter((line) => !fresh.includes(line)).map((line) => `- ${line}`),
    ...fresh.filter((line) => !old.includes(line)).map((line) => `+ ${line}`)
  ]
}

const valueOf = (text: string): unknown => parseDocument(text, { logLevel: "silent" }).toJS()

const declared = (cells: ReadonlyArray<string>): unknown => (cells.length === 1 ? cells[0] : { cells, by: "key" })

/** The same declaration with other cells for a queue. */
const expected = (text: string, queue: string, cells: ReadonlyArray<string>): unknown => {
  const value = valueOf(text) as { readonly queues?: Readonly<Record<string, unknown>> }
  return { ...value, queues: { ...value.queues, [queue]: declared(cells) } }
}

const replaced = (text: string, queue: string, cells: ReadonlyArray<string>): string | undefined => {
  const document = parseDocument(text, { logLevel: "silent" })
  const queues = document.get("queues", true)
  if (isMap(queues)) {
    const pair = queues.items.find(({ key }) => isScalar(key) && key.value === queue)
    const range = (pair?.value as { readonly range?: readonly [number, number, number] } | null | undefined)?.range
    if (range !== undefined && range !== null) {
      // A value on several lines ends with its line break.
      const [start, end] = range
      const kept = text.slice(start, end).endsWith("\n") ? "\n" : ""
      return text.slice(0, start) + written(cells) + kept + text.slice(end)
    }
    const [first] = queues.items
    const at = (first?.key as { readonly range?: readonly [number, number, number] } | undefined)?.range?.[0]
    if (at !== undefined && queues.flow !== true) {
      const indent = text.slice(text.lastIndexOf("\n", at - 1) + 1, at)
      return `${text.slice(0, at)}${queue}: ${written(cells)}\n${indent}${text.slice(at)}`
    }
    if (queues.flow === true && queues.range) {
      const inside = queues.range[0] + 1
      return `${text.slice(0, inside)} ${queue}: ${written(cells)}${queues.items.length === 0 ? " " : ","}${text.slice(inside)}`
    }
  }
  return queues === undefined && isMap(document.contents) && document.contents.flow !== true
    ? `${text.replace(/\n*$/, "\n")}queues:\n  ${queue}: ${written(cells)}\n`
    : undefined
}

/** Places a queue in other cells. Undefined if the text has a form that cannot be changed safely. */
export const edit = (text: string, queue: string, cells: ReadonlyArray<string>): Edited | undefined => {
  const after = replaced(text, queue, cells)
  return after !== undefined && canonicalJson(valueOf(after)) === canonicalJson(expected(text, queue, cells))
    ? { text: after, lines: difference(text, after) }
    : undefined
}

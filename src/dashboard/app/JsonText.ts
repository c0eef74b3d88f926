// Finds values in JSON text by path, so that an error can be shown at its value, and edits the text in place: parsing and
// printing it again would round long numbers.

interface Place {
  readonly from: number
  readonly to: number
}

const string = /"(?:[^"\\]|\\.)*"/y
const scalar = /[^\s,\]}]+/y
const space = /\s*/y

const matchAt = (pattern: RegExp, text: string, at: number): string => {
  pattern.lastIndex = at
  return pattern.exec(text)?.[0] ?? ""
}

const skip = (text: string, at: number) => at + matchAt(space, text, at).length

/** Visits one value and every value in it. Returns the end offset. The text must be valid JSON. */
const walk = (
  text: string,
  start: number,
  path: ReadonlyArray<string>,
  report: (path: ReadonlyArray<string>, place: Place) => void
): number => {
  const from = skip(text, start)
  let at = from
  const opening = text[at]
  if (opening === "{" || opening === "[") {
    at = skip(text, at + 1)
    for (let index = 0; at < text.length && text[at] !== "}" && text[at] !== "]"; index += 1) {
      let step = String(index)
      if (opening === "{") {
        const name = matchAt(string, text, at)
        step = JSON.parse(name) as string
        at = skip(text, at + name.length) + 1
      }
      at = skip(text, walk(text, at, [...path, step], report))
      if (text[at] === ",") at = skip(text, at + 1)
    }
    at += 1
  } else at += matchAt(opening === '"' ? string : scalar, text, at).length
  report(path, { from, to: at })
  return at
}

/** Returns the place of the value at a path, or of its closest ancestor. */
export const locate = (text: string, path: ReadonlyArray<string>): Place => {
  let best: { readonly depth: number; readonly place: Place } = { depth: -1, place: { from: 0, to: text.length } }
  try {
    JSON.parse(text)
    walk(text, 0, [], (found, place) => {
      const isAround = found.length <= path.length && found.every((step, index) => step === path[index])
      if (isAround && found.length > best.depth) best = { depth: found.length, place }
    })
  } catch {
    // Not JSON: there is nothing to find.
  }
  return best.place
}

/** The line of an offset, from 0. */
export const lineOf = (text: string, offset: number): number => text.slice(0, offset).split("\n").length - 1

const indented = (text: string) => text.replaceAll("\n", "\n  ")

/** Adds a field to the object in the text. Returns the text unchanged if it is not an object. */
export const withField = (text: string, name: string, value: string): string => {
  const { from, to } = locate(text, [])
  if (text[from] !== "{" || text[to - 1] !== "}") return text
  const inside = text.slice(from + 1, to - 1)
  const before = inside.trim() === "" ? "" : `${inside.replace(/\s+$/, "")},`
  return `${text.slice(0, from)}{${before}\n  ${JSON.stringify(name)}: ${indented(value)}\n}${text.slice(to)}`
}

/** Replaces the value at a path. */
export const withValue = (text: string, path: ReadonlyArray<string>, value: string): string => {
  const { from, to } = locate(text, path)
  return text.slice(0, from) + value + text.slice(to)
}

import { Console, type Effect } from "effect"
import { printableLines } from "../core/PrintableText.js"

export { printable, printableLines } from "../core/PrintableText.js"

export const printJson = (value: unknown): Effect.Effect<void> => Console.log(JSON.stringify(value, null, 2))

/** Prints a result as JSON or as text. */
export const print = (json: boolean, value: unknown, text: string): Effect.Effect<void> =>
  json ? printJson(value) : Console.log(text)

const ageUnits = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000]
] as const

const length = (millis: number): string => {
  const [unit, size] = ageUnits.find(([, size]) => millis >= size) ?? ["s", 1_000]
  return `${Math.floor(millis / size)}${unit}`
}

/** A time to come, rounded to the second of two units: seven days that began a moment ago are still `7d`. */
const ahead = (millis: number): string => {
  const place = ageUnits.findIndex(([, size]) => millis >= size)
  const [unit, size] = ageUnits[place + 1] ?? ["s", 1_000]
  const rounded = Math.round(millis / size) * size
  const rest = Math.round((rounded % (ageUnits[place]?.[1] ?? size)) / size)
  return `${length(rounded)}${rest === 0 ? "" : `${rest}${unit}`}`
}

/** Formats the distance between an instant and now: `3m ago`, `in 2h`, `in 1d12h`, `now`. */
export const age = (millis: number, now: number): string => {
  const distance = Math.abs(now - millis)
  if (distance < 1_000) return "now"
  return millis < now ? `${length(distance)} ago` : `in ${ahead(distance)}`
}

/** A state with its reason: `dead (exhausted)`. */
export const stateText = (of: { readonly state: string; readonly reason: string | undefined }): string =>
  of.reason === undefined || of.reason === "cancelled" ? of.state : `${of.state} (${of.reason})`

/** Renders rows as aligned columns under a heading. */
export const table = (heading: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths = heading.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => (row[column] ?? "").length))
  )
  const line = (cells: ReadonlyArray<string>) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd()
  return [line(heading), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n")
}

/** Renders facts, one per line, with their values escaped. Facts without a value are left out. */
export const factList = (facts: ReadonlyArray<readonly [name: string, value: string | undefined]>): string =>
  facts
    .flatMap(([name, value]) => (value === undefined ? [] : `${name.padEnd(14)} ${printableLines(value, 15)}`))
    .join("\n")

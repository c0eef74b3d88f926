import { Console, Effect } from "effect"
import { printableLines } from "../core/PrintableText.js"
import * as Screen from "./kit/Screen.js"
import * as TextTable from "./kit/TextTable.js"

export { printable, printableLines } from "../core/PrintableText.js"
export { age } from "../core/SpanText.js"

/** Text for people, as it looks on a screen. */
export type Shown = (screen: Screen.Screen) => string

export const printJson = (value: unknown): Effect.Effect<void> => Console.log(JSON.stringify(value, null, 2))

/** Prints text for people. */
export const printText = (text: string | Shown): Effect.Effect<void> =>
  typeof text === "string" ? Console.log(text) : Effect.flatMap(Screen.stdout, (screen) => Console.log(text(screen)))

/** Prints a result as JSON or as text. */
export const print = (json: boolean, value: unknown, text: string | Shown): Effect.Effect<void> =>
  json ? printJson(value) : printText(text)

/** Parts below each other. */
export const stack =
  (...parts: ReadonlyArray<string | Shown>): Shown =>
  (screen) =>
    parts.map((part) => (typeof part === "string" ? part : part(screen))).join("\n")

/** A state with its reason: `dead (exhausted)`. */
export const stateText = (of: { readonly state: string; readonly reason: string | undefined }): string =>
  of.reason === undefined || of.reason === "cancelled" ? of.state : `${of.state} (${of.reason})`

/** Rows as aligned columns under a heading. */
export const table =
  (
    heading: ReadonlyArray<string>,
    rows: ReadonlyArray<ReadonlyArray<string>>,
    options?: TextTable.TableOptions
  ): Shown =>
  (screen) =>
    TextTable.render(heading, rows, screen, options)

/** Facts, one per line, with their values escaped. Facts without a value are left out. */
export const factList =
  (facts: ReadonlyArray<readonly [name: string, value: string | undefined]>): Shown =>
  (screen) =>
    facts
      .flatMap(([name, value]) => {
        if (value === undefined) return []
        const text = printableLines(value, 15)
        return `${Screen.styled(screen, "dim", name.padEnd(14))} ${name === "state" ? Screen.state(screen, text) : text}`
      })
      .join("\n")

/** A number with its noun. */
export const counted = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`

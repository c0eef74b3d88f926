import { stripVTControlCharacters } from "node:util"
import { Console, Effect } from "effect"

/** Colours are for terminals: what goes to a file or a pipe is plain. */
export const withPlainPipes = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.gen(function* () {
    const inner = yield* Console.consoleWith(Effect.succeed)
    const plain = (colours: boolean, args: ReadonlyArray<unknown>) =>
      colours ? args : args.map((arg) => (typeof arg === "string" ? stripVTControlCharacters(arg) : arg))
    return yield* Effect.withConsole(effect, {
      ...inner,
      log: (...args) => inner.log(...plain(process.stdout.isTTY === true, args)),
      error: (...args) => inner.error(...plain(process.stderr.isTTY === true, args))
    })
  })

/** Whatever text is printed goes through this first. */
export const withPrinted =
  (change: (text: string) => string) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.gen(function* () {
      const inner = yield* Console.consoleWith(Effect.succeed)
      const log = (...args: ReadonlyArray<unknown>) =>
        inner.log(...args.map((arg) => (typeof arg === "string" ? change(arg) : arg)))
      return yield* Effect.withConsole(effect, { ...inner, log })
    })

/** Stored text is anybody's: what would move the cursor, recolour the screen or break a line is shown as an escape. */
export const printable = (text: string): string =>
  text.replace(/\p{Cc}|\p{Cf}|\p{Zl}|\p{Zp}/gu, (character) => {
    const code = character.codePointAt(0) ?? 0
    return `\\u{${code.toString(16)}}`
  })

/** Text of several lines, each printable. All but the first are indented, so that none looks like a line of ours. */
export const printableLines = (text: string, indent: number): string =>
  text
    .replaceAll("\t", "  ")
    .split(/\r?\n/)
    .map(printable)
    .join(`\n${" ".repeat(indent)}`)

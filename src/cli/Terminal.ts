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

import { Cause, Effect, Exit, Fiber } from "effect"
import * as Cli from "./cli/Cli.js"
import * as Failure from "./cli/Failure.js"
import * as StopSignals from "./cli/StopSignals.js"

// The first signal interrupts the command, which closes its Scope and ends in good order. The second ends at once.

const fiber = Effect.runFork(Cli.run(process.argv))

let stopping = false
const watching = StopSignals.listen({
  gracefully: () => {
    stopping = true
    Effect.runFork(Fiber.interruptFork(fiber))
  },
  atOnce: (code) => process.exit(code)
})
Effect.runFork(watching)

// A reader that is gone, like `head` or a closed terminal, must not end the process by an error.
process.stdout.on("error", () => {})
process.stderr.on("error", () => {})

/** What is printed into a pipe is on its way until the other end has taken it: more than fits into the pipe would be lost. */
const end = (code: number) => process.stdout.write("", () => process.exit(code))

fiber.addObserver((exit) => {
  if (Exit.isSuccess(exit) || (stopping && Cause.isInterruptedOnly(exit.cause))) return end(Failure.ExitCode.done)
  const { code, lines } = Failure.describe(exit.cause)
  process.exitCode = code
  process.stderr.write(lines.map((line) => `nightshift: ${line}\n`).join(""), () => end(code))
})

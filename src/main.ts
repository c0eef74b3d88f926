import { Cause, Effect, Exit, Fiber } from "effect"
import * as Cli from "./cli/Cli.js"
import * as Failure from "./cli/Failure.js"

// The first signal interrupts the command, which closes its Scope and ends in good order. The second ends at once.

const fiber = Effect.runFork(Cli.run(process.argv))

const signals = { SIGINT: 130, SIGTERM: 143 } as const
let stopping = false
for (const [signal, code] of Object.entries(signals)) {
  process.on(signal, () => {
    if (stopping) process.exit(code)
    stopping = true
    Effect.runFork(Fiber.interruptFork(fiber))
  })
}

// Whoever reads no more, like `head`, needs no more.
process.stdout.on("error", () => {})

/** What is printed into a pipe is on its way until the other end has taken it: more than fits into the pipe would be lost. */
const end = (code: number) => process.stdout.write("", () => process.exit(code))

fiber.addObserver((exit) => {
  if (Exit.isSuccess(exit) || (stopping && Cause.isInterruptedOnly(exit.cause))) return end(Failure.ExitCode.done)
  const { code, lines } = Failure.describe(exit.cause)
  process.exitCode = code
  process.stderr.write(lines.map((line) => `nightshift: ${line}\n`).join(""), () => end(code))
})

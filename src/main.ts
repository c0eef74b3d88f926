import { Cause, Effect, Exit, Fiber } from "effect"
import * as Cli from "./cli/Cli.js"
import * as Failure from "./cli/Failure.js"
import * as StopSignals from "./cli/StopSignals.js"

// The first signal interrupts the command, which closes its Scope and drains. The second exits immediately.

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

// A closed reader, such as `head` or a closed terminal, must not crash the process.
let outputError: NodeJS.ErrnoException | null | undefined
process.stdout.on("error", (error) => {
  outputError ??= error
})
process.stderr.on("error", () => {})

/**
 * Wait until stdout is flushed: process.exit would drop output that does not fit into the pipe's buffer. Output that could not
 * be written, such as to a full disk, is a failure.
 */
const end = (code: number) =>
  process.stdout.write("", (error) => {
    outputError ??= error
    if (!outputError || ["EPIPE", "EIO"].includes(outputError.code ?? "")) return process.exit(code)
    const text = `nightshift: Cannot write the output: ${outputError.message}.\n`
    process.stderr.write(text, () => process.exit(code || Failure.ExitCode.failed))
  })

fiber.addObserver((exit) => {
  if (Exit.isSuccess(exit) || (stopping && Cause.isInterruptedOnly(exit.cause))) return end(Failure.ExitCode.done)
  const { code, lines } = Failure.describe(exit.cause)
  process.exitCode = code
  process.stderr.write(lines.map((line) => `nightshift: ${line}\n`).join(""), () => end(code))
})

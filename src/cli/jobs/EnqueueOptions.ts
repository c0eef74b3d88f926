import { readFile } from "node:fs/promises"
import { Effect } from "effect"
import * as JsonNumbers from "../../core/JsonNumbers.js"
import { limits } from "../../core/StoredJob.js"
import { fieldAt } from "../../queue/enqueue/PayloadCheck.js"
import { notBoth, UsageError } from "../Failure.js"
import * as Input from "../kit/Input.js"

/** `--run-at` or `--delay`, not both. */
export const start = {
  delay: Input.optional(Input.duration, "Delay before the job is due, as in 90s, 5m or 1h30m."),
  runAt: Input.optional(Input.instant, "Earliest start, as in 2026-01-31T09:00:00Z.")
}

/** `--payload` or `--payload-file`, not both. */
export const payloadSource = {
  payload: Input.optional(Input.text, "The payload as JSON (default {}); - reads it from standard input."),
  payloadFile: Input.optional(Input.file, "File with the payload as JSON; - reads standard input.")
}

/** Whose data a job or event has. */
export const subject: Input.Input<string | undefined> = Input.optional(
  Input.text,
  "Whose data this is, as in customer:42. nightshift erase removes the data of a subject."
)

const readStdin = async (): Promise<string> => {
  const chunks: Array<Buffer> = []
  let bytes = 0
  for await (const chunk of process.stdin) {
    bytes += chunk.length
    // Stop reading early. The factor of 2 leaves room for whitespace, which does not count towards the payload limit.
    if (bytes > 2 * limits.payloadBytes) throw new Error("it exceeds the maximum payload size of 1 MiB")
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString("utf8")
}

const reading = (where: string, read: () => Promise<string>) =>
  Effect.tryPromise({
    try: read,
    catch: (error) =>
      new UsageError({
        message: `Cannot read the payload from ${where}: ${error instanceof Error ? error.message : error}.`
      })
  })

/** Parses JSON text and names its source in errors. */
export const parsePayload = (text: string, where: string): Effect.Effect<unknown, UsageError> =>
  Effect.suspend(() => {
    try {
      const value: unknown = JSON.parse(text)
      const lost = JsonNumbers.lostIn(text)
      if (lost === undefined) return Effect.succeed(value)
      return new UsageError({ message: `${fieldAt(lost.path)} ${JsonNumbers.reasonOf(lost)}.` })
    } catch (error) {
      return new UsageError({
        message: `${where} is not valid JSON: ${error instanceof Error ? error.message : error}.`
      })
    }
  })

/** Reads and parses the payload. `option` is the name of the option that has it. */
export const readPayload = ({ payload, payloadFile }: Input.Given<typeof payloadSource>, option = "--payload") =>
  Effect.gen(function* () {
    yield* notBoth("--payload", "--payload-file", payload !== undefined && payloadFile !== undefined)
    if (payload === "-" || payloadFile === "-") {
      return yield* parsePayload(yield* reading("standard input", readStdin), "Standard input")
    }
    if (payloadFile === undefined) return yield* parsePayload(payload ?? "{}", option)
    return yield* parsePayload(yield* reading(payloadFile, () => readFile(payloadFile, "utf8")), payloadFile)
  })

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
    if (bytes > 2 * limits.payloadBytes) throw new Error("it exceeds the maximum size of 1 MiB")
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString("utf8")
}

const reading = (field: string, where: string, read: () => Promise<string>) =>
  Effect.tryPromise({
    try: read,
    catch: (error) =>
      new UsageError({
        message: `Cannot read the ${field} from ${where}: ${error instanceof Error ? error.message : error}.`
      })
  })

/** Parses JSON text. Errors name its source, or the part of the field that would change. */
const parse = (field: string, text: string, where: string): Effect.Effect<unknown, UsageError> =>
  Effect.suspend(() => {
    try {
      const value: unknown = JSON.parse(text)
      const lost = JsonNumbers.lostIn(text)
      if (lost === undefined) return Effect.succeed(value)
      const at = fieldAt(lost.path).replace(/^payload/, field)
      return new UsageError({ message: `${at} ${JsonNumbers.reasonOf(lost)}.` })
    } catch (error) {
      return new UsageError({
        message: `${where} is not valid JSON: ${error instanceof Error ? error.message : error}.`
      })
    }
  })

/** Parses the JSON of the option that is named like the field. */
export const parseOption = (field: "payload" | "data" | "meta", text: string): Effect.Effect<unknown, UsageError> =>
  parse(field, text, `--${field}`)

const fromStdin = (field: string) =>
  Effect.flatMap(reading(field, "standard input", readStdin), (text) => parse(field, text, "Standard input"))

/** Reads and parses `--data`. */
export const readData = (text = "{}"): Effect.Effect<unknown, UsageError> =>
  text === "-" ? fromStdin("data") : parseOption("data", text)

/** Reads and parses the payload. */
export const readPayload = ({ payload, payloadFile }: Input.Given<typeof payloadSource>) =>
  Effect.gen(function* () {
    yield* notBoth("--payload", "--payload-file", payload !== undefined && payloadFile !== undefined)
    if (payload === "-" || payloadFile === "-") return yield* fromStdin("payload")
    if (payloadFile === undefined) return yield* parseOption("payload", payload ?? "{}")
    const text = yield* reading("payload", payloadFile, () => readFile(payloadFile, "utf8"))
    return yield* parse("payload", text, payloadFile)
  })

import { readFile } from "node:fs/promises"
import { Effect, Either } from "effect"
import { limits } from "../../core/StoredJob.js"
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

/** Skips a byte order mark. */
const utf8 = new TextDecoder("utf-8", { fatal: true })

const readStdin = async (): Promise<string> => {
  const chunks: Array<Buffer> = []
  let bytes = 0
  for await (const chunk of process.stdin) {
    bytes += chunk.length
    // Stop reading early. The factor of 2 leaves room for whitespace, which does not count towards the payload limit.
    if (bytes > 2 * limits.payloadBytes) throw new Error("it exceeds the maximum size of 1 MiB")
    chunks.push(chunk)
  }
  return utf8.decode(Buffer.concat(chunks))
}

const reading = (field: string, where: string, read: () => Promise<string>) =>
  Effect.tryPromise({
    try: read,
    catch: (error) =>
      new UsageError({
        message: `Cannot read the ${field} from ${where}: ${error instanceof TypeError ? "it is not valid UTF-8" : Object(error).message}.`
      })
  })

/** Parses JSON text. Errors name its source. */
const parse = (text: string, where: string): Either.Either<unknown, UsageError> =>
  Either.mapLeft(Input.json.read(text), (problem) => new UsageError({ message: `${where} ${problem}.` }))

const fromStdin = (field: string) =>
  Effect.flatMap(reading(field, "standard input", readStdin), (text) => parse(text, "Standard input"))

/** Reads and parses `--data`. */
export const readData = (text = "{}"): Effect.Effect<unknown, UsageError> =>
  text === "-" ? fromStdin("data") : parse(text, "--data")

/** Reads and parses the payload. */
export const readPayload = ({ payload, payloadFile }: Input.Given<typeof payloadSource>) =>
  Effect.gen(function* () {
    yield* notBoth("--payload", "--payload-file", payload !== undefined && payloadFile !== undefined)
    if (payload === "-" || payloadFile === "-") return yield* fromStdin("payload")
    if (payloadFile === undefined) return yield* parse(payload ?? "{}", "--payload")
    const text = yield* reading("payload", payloadFile, async () => utf8.decode(await readFile(payloadFile)))
    return yield* parse(text, payloadFile)
  })

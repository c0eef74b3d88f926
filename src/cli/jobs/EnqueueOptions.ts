import { readFile } from "node:fs/promises"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import { Clock, Data, Duration, Effect, Option } from "effect"
import * as DurationText from "../../core/DurationText.js"
import * as JsonNumbers from "../../core/JsonNumbers.js"
import { limits } from "../../core/StoredJob.js"
import * as Instant from "../../http/Instant.js"
import { fieldAt } from "../../queue/enqueue/PayloadCheck.js"
import { UsageError } from "../Failure.js"

/** When a job becomes due. */
export type Start = Data.TaggedEnum<{
  Now: {}
  At: { readonly millis: number }
  After: { readonly delay: Duration.Duration }
}>
const { $match: matchStart, After, At, Now } = Data.taggedEnum<Start>()

const refuse = (sentence: string) => Effect.fail(ValidationError.invalidValue(HelpDoc.p(sentence)))

const reads = <A>(name: string, expected: string, parse: (text: string) => Option.Option<A>) =>
  Options.mapEffect((text: string) =>
    Option.match(parse(text), {
      onNone: () => refuse(`--${name} must be ${expected}, got ${JSON.stringify(text)}.`),
      onSome: (value) => Effect.succeed(value)
    })
  )

const runAt = Options.text("run-at").pipe(
  reads("run-at", Instant.expected, Instant.parse),
  Options.withDescription("Earliest start, as in 2026-01-31T09:00:00Z."),
  Options.optional
)

/** An optional duration. */
export const duration = (name: string, about: string) =>
  Options.text(name).pipe(
    reads(name, DurationText.expected, DurationText.parse),
    Options.withDescription(about),
    Options.optional
  )

const delay = duration("delay", "Delay before the job is due, as in 90s, 5m or 1h30m.")

/** `--run-at` or `--delay`, not both. */
export const start: Options.Options<Start> = Options.all({ delay, runAt }).pipe(
  Options.mapEffect(({ delay, runAt }): Effect.Effect<Start, ValidationError.ValidationError> => {
    if (Option.isSome(delay) && Option.isSome(runAt)) return refuse("Use --run-at or --delay, not both.")
    if (Option.isSome(runAt)) return Effect.succeed(At({ millis: runAt.value }))
    return Effect.succeed(Option.match(delay, { onNone: () => Now(), onSome: (delay) => After({ delay }) }))
  })
)

/** Returns the due time in epoch milliseconds, or undefined for now. A delay counts from this process's clock. */
export const resolveStart = (start: Start): Effect.Effect<number | undefined> =>
  Effect.map(Clock.currentTimeMillis, (now) =>
    matchStart(start, {
      Now: () => undefined,
      At: ({ millis }) => millis,
      After: ({ delay }) => now + Duration.toMillis(delay)
    })
  )

export type PayloadSource = Data.TaggedEnum<{
  Text: { readonly text: string }
  File: { readonly path: string }
  Stdin: {}
}>
const { $match, File, Stdin, Text } = Data.taggedEnum<PayloadSource>()

const payload = Options.text("payload").pipe(
  Options.withDescription("The payload as JSON (default {}); - reads it from standard input."),
  Options.optional
)
const payloadFile = Options.text("payload-file").pipe(
  Options.withDescription("File with the payload as JSON; - reads standard input."),
  Options.optional
)

/** `--payload` or `--payload-file`, not both. */
export const payloadSource: Options.Options<PayloadSource> = Options.all({ payload, payloadFile }).pipe(
  Options.mapEffect(({ payload, payloadFile }): Effect.Effect<PayloadSource, ValidationError.ValidationError> => {
    if (Option.isSome(payload) && Option.isSome(payloadFile)) {
      return refuse("Use --payload or --payload-file, not both.")
    }
    if (Option.contains(payload, "-") || Option.contains(payloadFile, "-")) return Effect.succeed(Stdin())
    return Effect.succeed(
      Option.match(payloadFile, {
        onNone: () => Text({ text: Option.getOrElse(payload, () => "{}") }),
        onSome: (path) => File({ path })
      })
    )
  })
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

const textOf = $match({
  Text: ({ text }) => Effect.succeed({ text, where: "--payload" }),
  File: ({ path }) =>
    Effect.map(
      reading(path, () => readFile(path, "utf8")),
      (text) => ({ text, where: path })
    ),
  Stdin: () => Effect.map(reading("standard input", readStdin), (text) => ({ text, where: "Standard input" }))
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

/** Reads and parses the payload. */
export const readPayload = (source: PayloadSource): Effect.Effect<unknown, UsageError> =>
  Effect.flatMap(textOf(source), ({ text, where }) => parsePayload(text, where))

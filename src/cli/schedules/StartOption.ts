import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import { Clock, Data, Duration, Effect, Option } from "effect"
import * as DurationText from "../../core/DurationText.js"
import * as Instant from "../../http/Instant.js"

/** When a job becomes due. */
export type Start = Data.TaggedEnum<{
  Now: {}
  At: { readonly millis: number }
  After: { readonly delay: Duration.Duration }
}>
const { $match, After, At, Now } = Data.taggedEnum<Start>()

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
const delay = Options.text("delay").pipe(
  reads("delay", DurationText.expected, DurationText.parse),
  Options.withDescription("Delay before the job is due, as in 90s, 5m or 1h30m."),
  Options.optional
)

/** `--run-at` or `--delay`, not both. */
export const option: Options.Options<Start> = Options.all({ delay, runAt }).pipe(
  Options.mapEffect(({ delay, runAt }): Effect.Effect<Start, ValidationError.ValidationError> => {
    if (Option.isSome(delay) && Option.isSome(runAt)) return refuse("Use --run-at or --delay, not both.")
    if (Option.isSome(runAt)) return Effect.succeed(At({ millis: runAt.value }))
    return Effect.succeed(Option.match(delay, { onNone: () => Now(), onSome: (delay) => After({ delay }) }))
  })
)

/** Returns the due time in epoch milliseconds, or undefined for now. A delay counts from this process's clock. */
export const resolve = (start: Start): Effect.Effect<number | undefined> =>
  Effect.map(Clock.currentTimeMillis, (now) =>
    $match(start, {
      Now: () => undefined,
      At: ({ millis }) => millis,
      After: ({ delay }) => now + Duration.toMillis(delay)
    })
  )

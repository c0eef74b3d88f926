import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import { Effect, Option } from "effect"
import { DeadReason, State } from "../../core/StoredJob.js"
import * as Instant from "../../http/Instant.js"
import type { JobFilter } from "../../queue/search/JobFilter.js"

const refuse = (sentence: string) => Effect.fail(ValidationError.invalidValue(HelpDoc.p(sentence)))

const several = (name: string, about: string) =>
  Options.text(name).pipe(Options.withDescription(`${about} Repeat it for several.`), Options.repeated)

const optionalText = (name: string, about: string) =>
  Options.text(name).pipe(Options.withDescription(about), Options.optional)

const instant = (name: string, about: string) =>
  Options.text(name).pipe(
    Options.mapEffect((text) =>
      Option.match(Instant.parse(text), {
        onNone: () => refuse(`--${name} must be ${Instant.expected}, not ${JSON.stringify(text)}.`),
        onSome: (millis) => Effect.succeed(millis)
      })
    ),
    Options.withDescription(about),
    Options.optional
  )

const json = (name: string, about: string) =>
  Options.text(name).pipe(
    Options.mapEffect((text) => {
      try {
        return Effect.succeed(JSON.parse(text) as unknown)
      } catch {
        return refuse(`--${name} is not JSON: ${JSON.stringify(text)}.`)
      }
    }),
    Options.withDescription(about),
    Options.optional
  )

/** Options that select jobs. */
export const options = {
  queue: several("queue", "Only of this queue."),
  kind: several("kind", "Only of this kind."),
  state: Options.choice("state", State.literals).pipe(
    Options.withDescription("Only in this state. Repeat it for several."),
    Options.repeated
  ),
  deadReason: Options.choice("dead-reason", DeadReason.literals).pipe(
    Options.withDescription("Only dead for this reason. Repeat it for several."),
    Options.repeated
  ),
  since: instant("since", "Only stored at or after this instant, as in 2026-01-31T09:00:00Z."),
  until: instant("until", "Only stored before this instant."),
  containing: json("containing", "Only with a payload that contains this JSON."),
  dedupe: optionalText("dedupe", "Only with this dedupe key."),
  text: optionalText("text", "Only with this text in the last error."),
  shape: optionalText("shape", "Only with an error of this shape: its first line, with numbers and ids as #.")
}

interface Given {
  readonly queue: ReadonlyArray<string>
  readonly kind: ReadonlyArray<string>
  readonly state: ReadonlyArray<State>
  readonly deadReason: ReadonlyArray<DeadReason>
  readonly since: Option.Option<number>
  readonly until: Option.Option<number>
  readonly containing: Option.Option<unknown>
  readonly dedupe: Option.Option<string>
  readonly text: Option.Option<string>
  readonly shape: Option.Option<string>
}

const someOf = <A>(values: ReadonlyArray<A>): ReadonlyArray<A> | undefined => (values.length === 0 ? undefined : values)

/** Builds the filter; all options must match. */
export const filterOf = (given: Given): JobFilter => ({
  queue: someOf(given.queue),
  kind: someOf(given.kind),
  state: someOf(given.state),
  deadReason: someOf(given.deadReason),
  since: Option.getOrUndefined(given.since),
  until: Option.getOrUndefined(given.until),
  payload: Option.getOrUndefined(given.containing),
  dedupe: Option.getOrUndefined(given.dedupe),
  text: Option.getOrUndefined(given.text),
  shape: Option.getOrUndefined(given.shape)
})

import * as Args from "@effect/cli/Args"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import { Effect, Option, Schema } from "effect"
import { BatchId, JobId } from "../../core/Ids.js"
import { DeadReason, State } from "../../core/StoredJob.js"
import * as Instant from "../../http/Instant.js"
import type { JobFilter } from "../../queue/search/JobFilter.js"

const refuse = (sentence: string) => Effect.fail(ValidationError.invalidValue(HelpDoc.p(sentence)))

const several = (name: string, about: string) =>
  Options.text(name).pipe(Options.withDescription(`${about} Can be repeated.`), Options.repeated)

const optionalText = (name: string, about: string) =>
  Options.text(name).pipe(Options.withDescription(about), Options.optional)

const instant = (name: string, about: string) =>
  Options.text(name).pipe(
    Options.mapEffect((text) =>
      Option.match(Instant.parse(text), {
        onNone: () => refuse(`--${name} must be ${Instant.expected}, got ${JSON.stringify(text)}.`),
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
        return refuse(`--${name} must be valid JSON, got ${JSON.stringify(text)}.`)
      }
    }),
    Options.withDescription(about),
    Options.optional
  )

const readBatch = Schema.decode(BatchId)

/** The option for states, with those that a command accepts. */
export const stateOf = (states: ReadonlyArray<State>): Options.Options<Array<State>> =>
  Options.choice("state", states).pipe(
    Options.withDescription("Only jobs in this state. Can be repeated."),
    Options.repeated
  )

/** Options that select jobs. */
export const options = {
  queue: several("queue", "Only jobs of this queue."),
  kind: several("kind", "Only jobs of this kind."),
  state: stateOf(State.literals),
  deadReason: Options.choice("dead-reason", DeadReason.literals).pipe(
    Options.withDescription("Only dead jobs with this reason. Can be repeated."),
    Options.repeated
  ),
  since: instant("since", "Only jobs enqueued at or after this instant, as in 2026-01-31T09:00:00Z."),
  until: instant("until", "Only jobs enqueued before this instant."),
  containing: json("containing", "Only jobs whose payload contains this JSON."),
  dedupe: optionalText("dedupe", "Only jobs with this dedupe key."),
  text: optionalText("text", "Only jobs with this text in the last error."),
  shape: optionalText(
    "shape",
    "Only jobs with this error shape: the first line of the last error, with numbers and ids replaced by #."
  ),
  batch: Options.text("batch").pipe(
    Options.mapEffect((text) =>
      Effect.mapError(readBatch(text.toLowerCase()), () =>
        ValidationError.invalidValue(HelpDoc.p(`--batch must be a batch id, got ${JSON.stringify(text)}.`))
      )
    ),
    Options.withDescription("Only jobs of this batch."),
    Options.optional
  )
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
  readonly batch: Option.Option<BatchId>
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
  shape: Option.getOrUndefined(given.shape),
  batch: Option.getOrUndefined(given.batch)
})

const readId = Schema.decode(JobId)

/** `<id>` on the command line. */
const readJobId = (text: string) =>
  Effect.mapError(readId(text.toLowerCase()), () => HelpDoc.p(`A job id must be a UUID, got ${JSON.stringify(text)}.`))

export const id: Args.Args<JobId> = Args.text({ name: "id" }).pipe(
  Args.withDescription("The job's id."),
  Args.mapEffect(readJobId)
)

/** The id of a job, or of a workflow execution, which has a slash: `order/A-17`. */
export const idOrExecution: Args.Args<string> = Args.text({ name: "id" }).pipe(
  Args.withDescription("The job's id, or the id of a workflow execution, as in order/A-17."),
  Args.mapEffect((text) => (text.includes("/") ? Effect.succeed(text) : readJobId(text)))
)

import { Duration, Effect, Either, ParseResult, type Schema } from "effect"
import type { Backoff } from "../core/Backoff.js"
import { type DurationInput, decode } from "../core/DurationText.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import { Events, InvalidEvent, type NewSubscription, type Published } from "../queue/events/Events.js"
import * as Match from "../queue/events/Match.js"
import * as Job from "../queue/Job.js"
import { type HandlerOf, make as makeHandler } from "./Handler.js"
import type { JobContext } from "./JobContext.js"

/** How one event differs from others of its name. */
export interface PublishOptions {
  /** Key of the event's jobs: jobs that share a key can be limited or ordered together. [none] */
  readonly key?: string | undefined
  /** Names the event, up to 256 characters: a second event of this name with the same id is not stored. [none] */
  readonly id?: string | undefined
}

/** An event: its name and the schema of its data. */
export interface Event<in out A> {
  /** Name of the event, which subscribers refer to. */
  readonly name: string
  /** Schema of the data. */
  readonly schema: Schema.Schema<A, unknown>
  /** Stores the event and one job for each subscriber, in the caller's transaction if there is one. */
  readonly publish: (
    data: A,
    options?: PublishOptions
  ) => Effect.Effect<Published, InvalidEvent | DatabaseError, Events>
}

/** How a subscriber handles events. */
export interface OnOptions<in A> {
  /** Name of the subscriber: the kind of its jobs. Do not change it, or use it for another handler. */
  readonly as: string
  /** Runs at the start of each job. If it returns false, the job is done and the handler is not called. [all events] */
  readonly if?: ((data: A) => boolean) | undefined
  /** Values that an event must have, by path: `{ "data.country": "DE" }`. Other events make no job. [all events] */
  readonly match?: Readonly<Record<string, string | number | boolean | null>> | undefined
  /** When the subscriber is first declared, it also gets events that were published this long ago, as far as they are kept. [none] */
  readonly past?: DurationInput | undefined
  /** Queue of the jobs. [the declared routes, then `default`] */
  readonly queue?: string | undefined
  /** Attempts before a job is dead, counting the first. [5] */
  readonly attempts?: number | undefined
  /** Time limit of one attempt. [15 minutes] */
  readonly timeout?: DurationInput | undefined
  /** Delay after each failed attempt. [the queue's backoff, else `Backoff.ladder`] */
  readonly backoff?: Backoff | undefined
  /** Lower runs first. [0] */
  readonly priority?: number | undefined
}

/** Result of a job whose subscriber has a condition that was false. */
export const skipped: {
  /** Why the handler was not called. */
  readonly skipped: string
} = { skipped: "the condition `if` of the subscriber was false" }

/** What a subscriber declares. Throws a RangeError that names the option. */
export const subscriptionOf = (
  event: string,
  { as, match, past }: Pick<OnOptions<never>, "as" | "match" | "past">
): NewSubscription => {
  const compared = Match.of(match)
  if (Either.isLeft(compared)) throw new RangeError(`match of "${as}" ${compared.left}.`)
  return {
    event,
    kind: as,
    ...(match === undefined ? {} : { match: compared.right }),
    ...(past === undefined ? {} : { past: Duration.toMillis(decode(past)) })
  }
}

/**
 * Declares an event: its name and the schema of its data. Publishers and subscribers share it.
 *
 * @example
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Event } from "nightshift"
 *
 * const Paid = Event.make("order.paid", Schema.Struct({ order: Schema.String }))
 * export const Receipt = Event.on(Paid, { as: "send-receipt" }, ({ order }) => Effect.log("receipt for", order))
 * export const published = Paid.publish({ order: "A-17" }, { id: "A-17" })
 * ```
 */
export const make = <A, I>(name: string, schema: Schema.Schema<A, I>): Event<A> => {
  const plain = schema as unknown as Schema.Schema<A, unknown>
  const encode = ParseResult.encodeEither(plain)
  return {
    name,
    schema: plain,
    publish: (data, { id, key } = {}) =>
      Effect.gen(function* () {
        const encoded = encode(data)
        if (Either.isLeft(encoded)) {
          const reason = `does not match the event's schema: ${ParseResult.TreeFormatter.formatIssueSync(encoded.left)}`
          return yield* new InvalidEvent({ index: 0, field: "data", reason })
        }
        const events = yield* Events
        const [published] = yield* events.publish([{ name, data: encoded.right, key, id }])
        return published ?? (yield* Effect.dieMessage("an event has no result"))
      })
  }
}

/** Makes a subscriber: a handler whose jobs are the events. Each event makes one job, with its data as payload and `meta.event`. */
export const on = <A, Run extends Effect.Effect<unknown, unknown, unknown>>(
  event: Event<A>,
  options: OnOptions<A>,
  run: (data: A, job: JobContext) => Run
): HandlerOf<Run> => {
  const { as, if: condition, match: _, past: __, ...rest } = options
  const kind = {
    ...Job.make<A, unknown>(as, { ...rest, payload: event.schema }),
    subscribes: subscriptionOf(event.name, options)
  }
  const conditional = (data: A, job: JobContext) =>
    condition === undefined || condition(data) ? run(data, job) : (Effect.succeed(skipped) as unknown as Run)
  return makeHandler(kind, conditional)
}

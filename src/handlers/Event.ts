import { Duration, Effect, Either, ParseResult, type Schema } from "effect"
import type { Backoff } from "../core/Backoff.js"
import { type DurationInput, decode, expected } from "../core/DurationText.js"
import { shown } from "../core/Storable.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { PublishOptions, SubscriberOptions } from "../queue/events/Event.js"
import { Events, InvalidEvent, type NewSubscription, type Published } from "../queue/events/Events.js"
import * as Match from "../queue/events/Match.js"
import * as Job from "../queue/Job.js"
import { type HandlerOf, make as makeHandler } from "./Handler.js"
import type { JobContext } from "./JobContext.js"

export type { PublishOptions }

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
export interface OnOptions<in A> extends SubscriberOptions<A> {
  /** Attempts before a job is dead, counting the first. [5] */
  readonly attempts?: number | undefined
  /** Delay after each failed attempt. [the queue's backoff, else `Backoff.ladder`] */
  readonly backoff?: Backoff | undefined
}

/** Result of a job whose subscriber has a condition that was false. */
export const skipped: {
  /** Why the handler was not called. */
  readonly skipped: string
} = { skipped: "the condition `if` of the subscriber was false" }

/** An option of a subscriber is invalid. */
export class InvalidSubscriber extends RangeError {
  /** Name of the option. */
  readonly option: string

  constructor(option: string, message: string) {
    super(message)
    this.option = option
  }
}

/** Reads the options of a subscriber of this event, and separates those of its kind. Throws InvalidSubscriber. */
export const declared = <A, Options extends SubscriberOptions<A>>(event: string, options: Options) => {
  const { as, if: condition, match, past, ...ofKind } = options
  const millisOf = (option: string, duration: DurationInput) => {
    try {
      return Duration.toMillis(decode(duration))
    } catch {
      const reason = `must be ${expected}, or a number of milliseconds, got ${shown(duration)}`
      throw new InvalidSubscriber(option, `${option} of "${as}" ${reason}.`)
    }
  }
  const compared = Match.of(match)
  if (Either.isLeft(compared)) throw new InvalidSubscriber("match", `match of "${as}" ${compared.left}.`)
  const subscribes: NewSubscription = {
    event,
    kind: as,
    ...(match === undefined ? {} : { match: compared.right }),
    ...(past === undefined ? {} : { past: millisOf("past", past) })
  }
  /** The handler, which is not called for what `if` rejects. */
  const conditional =
    <Job, Result>(run: (data: A, job: Job) => Result) =>
    (data: A, job: Job): Result | typeof skipped =>
      condition === undefined || condition(data) ? run(data, job) : skipped
  return { as, ofKind, subscribes, conditional }
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
  const { as, conditional, ofKind, subscribes } = declared<A, OnOptions<A>>(event.name, options)
  const kind = { ...Job.make<A, unknown>(as, { ...ofKind, payload: event.schema }), subscribes }
  const guarded = conditional(run)
  return makeHandler(kind, (data, job: JobContext) => {
    const result = guarded(data, job)
    return result === skipped ? (Effect.succeed(skipped) as unknown as Run) : (result as Run)
  })
}

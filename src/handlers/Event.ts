import { Duration, Effect, Either, ParseResult, Predicate, Schema } from "effect"
import type { Backoff } from "../core/Backoff.js"
import { type DurationInput, decode, expected } from "../core/DurationText.js"
import { faultOfText, shown } from "../core/Storable.js"
import { limits } from "../core/StoredJob.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { NoWindow, PublishOptions, SubscriberOptions, Window, WindowOptions } from "../queue/events/Event.js"
import { Events, InvalidEvent, type NewSubscription, type Published } from "../queue/events/Events.js"
import * as Match from "../queue/events/Match.js"
import * as Job from "../queue/Job.js"
import { type HandlerOf, make as makeHandler } from "./Handler.js"
import type { JobContext } from "./JobContext.js"

export type { NoWindow, PublishOptions, WindowOptions }

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

/** Limits of the options of windows. */
const windowLimits = { debounce: Duration.toMillis("1 day"), max: 500, defaultMax: 100 }

/** Jobs of version 1 have the data of one event, those of version 2 a list. */
const listForm = { version: 2, upcasters: { 1: (data: unknown) => [data] } }

/** Reads the options of a subscriber of this event, and separates those of its kind. Throws InvalidSubscriber. */
export const declared = <A, Options extends SubscriberOptions<A> & (WindowOptions | NoWindow)>(
  event: string,
  options: Options
) => {
  const { as, by, debounce, if: condition, match, max, past, ...ofKind } = options
  const invalid = (option: string, reason: string) => new InvalidSubscriber(option, `${option} of "${as}" ${reason}.`)
  const millisOf = (option: string, duration: DurationInput) => {
    try {
      return Duration.toMillis(decode(duration))
    } catch {
      throw invalid(option, `must be ${expected}, or a number of milliseconds, got ${shown(duration)}`)
    }
  }
  const windowOf = (given: DurationInput): Window => {
    const millis = millisOf("debounce", given)
    if (!(millis > 0 && millis <= windowLimits.debounce))
      throw invalid("debounce", `must be longer than 0 and at most 1 day, got ${shown(given)}`)
    const most = max ?? windowLimits.defaultMax
    if (!Number.isInteger(most) || most < 1 || most > windowLimits.max)
      throw invalid("max", `must be a whole number from 1 to ${windowLimits.max}, got ${shown(most)}`)
    const paths = (Array.isArray(by) ? by : by === undefined ? [] : [by]).map((path) =>
      Either.getOrThrowWith(Match.pathOf(path), (reason) => invalid("by", reason))
    )
    return { debounce: millis, max: most, by: paths }
  }
  for (const [option, fault] of [
    ["as", faultOfText(as, Number.POSITIVE_INFINITY)],
    ["name", faultOfText(event, limits.nameCharacters)]
  ] as const)
    if (fault !== undefined)
      throw new InvalidSubscriber(option, `The name of ${option === "as" ? "a subscriber" : "an event"} ${fault}.`)
  const compared = Match.of(match)
  if (Either.isLeft(compared)) throw invalid("match", compared.left)
  for (const [option, value] of Object.entries({ max, by }))
    if (debounce === undefined && value !== undefined) throw invalid(option, "needs the option debounce")
  const subscribes: NewSubscription = {
    event,
    kind: as,
    ...(match === undefined ? {} : { match: compared.right }),
    ...(past === undefined ? {} : { past: millisOf("past", past) }),
    ...(debounce === undefined ? {} : { window: windowOf(debounce) })
  }
  const isWanted = (data: A) => condition === undefined || condition(data)
  /** The handler, which does not get what `if` rejects. Its payload is a list if the subscriber has windows. */
  const conditional =
    <Payload extends A | ReadonlyArray<A>, Job extends Pick<JobContext, "meta">, Result>(
      run: (payload: Payload, job: Job) => Result
    ) =>
    (payload: Payload, job: Job): Result | typeof skipped => {
      if (debounce === undefined) return isWanted(payload as A) ? run(payload, job) : skipped
      const wanted = (payload as ReadonlyArray<A>).map((data) => Boolean(isWanted(data)))
      if (!wanted.includes(true)) return skipped
      if (!wanted.includes(false)) return run(payload, job)
      const ofWanted = <B>(all: ReadonlyArray<B>) => all.filter((_, place) => wanted[place])
      // An entry of `meta.events` has the place of its event. Jobs that were stored before `debounce` was added have none.
      if (Predicate.hasProperty(job.meta, "events") && Array.isArray(job.meta.events)) {
        const value = { ...job.meta, events: ofWanted(job.meta.events) }
        Object.defineProperty(job, "meta", { value, enumerable: true })
      }
      return run(ofWanted(payload as ReadonlyArray<A>) as ReadonlyArray<A> as Payload, job)
    }
  return {
    as,
    /** Whether jobs have a list of events. */
    isList: debounce !== undefined,
    ofKind: { ...ofKind, ...(debounce === undefined ? {} : listForm) },
    subscribes,
    conditional
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
    publish: (data, { id, key, subject } = {}) =>
      Effect.gen(function* () {
        const encoded = encode(data)
        if (Either.isLeft(encoded)) {
          const reason = `does not match the event's schema: ${ParseResult.TreeFormatter.formatIssueSync(encoded.left)}`
          return yield* new InvalidEvent({ index: 0, field: "data", reason })
        }
        const events = yield* Events
        const [published] = yield* events.publish([{ name, data: encoded.right, key, subject, id }])
        return published ?? (yield* Effect.dieMessage("an event has no result"))
      })
  }
}

/**
 * Makes a subscriber: a handler whose jobs are the events. Each event makes one job, with its data as payload and `meta.event`. With
 * `debounce`, a job has a list of events: their data as payload, and `meta.events`.
 */
export const on: {
  <A, Run extends Effect.Effect<unknown, unknown, unknown>>(
    event: Event<A>,
    options: OnOptions<A> & WindowOptions,
    run: (events: ReadonlyArray<A>, job: JobContext) => Run
  ): HandlerOf<Run>
  <A, Run extends Effect.Effect<unknown, unknown, unknown>>(
    event: Event<A>,
    options: OnOptions<A> & NoWindow,
    run: (data: A, job: JobContext) => Run
  ): HandlerOf<Run>
} = <A, Run extends Effect.Effect<unknown, unknown, unknown>>(
  event: Event<A>,
  options: OnOptions<A> & (WindowOptions | NoWindow),
  run: (payload: never, job: JobContext) => Run
): HandlerOf<Run> => {
  type Payload = A | ReadonlyArray<A>
  const { as, conditional, isList, ofKind, subscribes } = declared<A, typeof options>(event.name, options)
  const payload = (isList ? Schema.Array(event.schema) : event.schema) as Schema.Schema<Payload, unknown>
  const kind = { ...Job.make<Payload, unknown>(as, { ...ofKind, payload }), subscribes }
  const guarded = conditional<Payload, JobContext, Run>(run as (payload: Payload, job: JobContext) => Run)
  return makeHandler(kind, (given, job: JobContext) => {
    const result = guarded(given, job)
    return result === skipped ? (Effect.succeed(skipped) as unknown as Run) : (result as Run)
  })
}

import { createHash } from "node:crypto"
import { Context, type Duration, Effect, Either, Schema } from "effect"
import type { BadCursor } from "../../core/BadCursor.js"
import { type Answer, Expected } from "../../core/ExpectedError.js"
import { isId, type JobId } from "../../core/Ids.js"
import { faultOfText, jsonText } from "../../core/Storable.js"
import { limits } from "../../core/StoredJob.js"
import type { SubjectDigest } from "../../core/Subject.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { digestOf, type Erase, subjectCharacters } from "../../database/SubjectText.js"
import type { OuterTransactionFailed } from "../JobErrors.js"
import type { RunStatement } from "../Queue.js"
import type { EventDetails, Match, Published, StoredEvent, Subscription, Window } from "./Event.js"

export type { EventDetails, EventJob, Match, Published, StoredEvent, Subscription, Window } from "./Event.js"

/** Maximum number of events in one call. */
export const maxEvents = 1_000

/** Maximum page size. */
export const maxEventPage = 200

/** An event to publish. */
export interface NewEvent {
  /** Name of the event, up to 128 characters. */
  readonly name: string
  /** A JSON value of up to 64 KiB. */
  readonly data: unknown
  /** Key of the event's jobs. */
  readonly key?: string | undefined
  /** The person or customer whose data the event has, and its jobs. */
  readonly subject?: string | undefined
  /** Names the event among those of its name: a second one with the same id is not stored. */
  readonly id?: string | undefined
}

/** The declaration of a subscriber, by the process that serves its kind. */
export interface NewSubscription {
  /** Name of the event. */
  readonly event: string
  /** Kind of the jobs, which is the name of the subscriber. */
  readonly kind: string
  /** Only events that match make a job. [all] */
  readonly match?: Match | undefined
  /** The first declaration of the subscriber also delivers events that were published this long ago, in milliseconds. [none] */
  readonly past?: number | undefined
  /** Several events make one job, which has a list of their data as payload, in version 2. [each event makes a job] */
  readonly window?: Window | undefined
}

/** An event was rejected because of the named field. No event of the request was stored. */
export class InvalidEvent extends Expected<InvalidEvent>(400, { code: "INVALID_OPTION" })("InvalidEvent", {
  /** Index of the event in the request, starting at 0. */
  index: Schema.Int,
  /** Name of the invalid field, such as `data` or `key`. */
  field: Schema.String,
  /** What is wrong with the field, as the end of a sentence. */
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.field} ${this.reason}.`
  }

  override get answer(): Answer {
    return { ...InvalidEvent.answer, field: this.field }
  }
}

/** No event has this id: its retention expired, or its transaction was rolled back or is not committed yet. */
export class EventNotFound extends Expected<EventNotFound>(404, { code: "INVALID_OPTION", field: "id" })(
  "EventNotFound",
  {
    /** Id that was looked up. */
    id: Schema.String
  }
) {
  override get message(): string {
    return `There is no event ${this.id}. Its retention expired, the transaction that published it was rolled back or is not committed yet, or the id is wrong.`
  }
}

/** The event has no such subscriber. */
export class NotSubscribed extends Expected<NotSubscribed>(404, { code: "INVALID_OPTION", field: "subscriber" })(
  "NotSubscribed",
  {
    /** Name of the event. */
    event: Schema.String,
    /** Name that does not subscribe to it. */
    subscriber: Schema.String
  }
) {
  override get message(): string {
    return `"${this.subscriber}" does not subscribe to the event "${this.event}". List the subscribers with \`nightshift events subscribers\`.`
  }
}

/** A wait of a workflow execution for an event. */
export interface EventWait {
  /** Id of the execution. */
  readonly execution: string
  /** Id of the execution's job. */
  readonly job: JobId
  /** Name of the signal that wakes the execution. */
  readonly name: string
  /** Name of the event. */
  readonly event: string
  /** Values that the event must have. */
  readonly match: Match
  /** The wait has timed out: if no event has ended it, it is deleted. [false] */
  readonly ends?: boolean | undefined
}

/** The event that a wait found, or whether an event can still appear whose publisher did not see the wait. */
export type WaitAnswer =
  | {
      /** Data of the event. */
      readonly data: unknown
    }
  | {
      /** Whether every later event wakes the execution. */
      readonly settled: boolean
    }

export interface Filled {
  /** Jobs that were stored. */
  readonly jobs: number
  /** Whether a subscriber still waits for earlier events. */
  readonly isOpen: boolean
}

export interface Closed {
  /** Jobs that were stored. */
  readonly jobs: number
  /** When to look again, in epoch milliseconds. Undefined if no subscriber has windows and none is open. */
  readonly nextAt: number | undefined
}

/** Events that are stored once and make one job for each of their subscribers. */
export class Events extends Context.Tag("nightshift/queue/Events")<
  Events,
  {
    /**
     * Stores events, all or none, and one job for each event and subscriber: in the caller's transaction if there is one. An event
     * whose id exists is not stored again. Ends the waits of executions that match. Depth caps do not apply.
     */
    readonly publish: (
      events: ReadonlyArray<NewEvent>
    ) => Effect.Effect<ReadonlyArray<Published>, InvalidEvent | DatabaseError>

    /** The same with one statement in a transaction that another library holds. */
    readonly publishInside: (
      run: RunStatement,
      events: ReadonlyArray<NewEvent>
    ) => Effect.Effect<ReadonlyArray<Published>, InvalidEvent | OuterTransactionFailed | DatabaseError>

    /** Replaces the subscriptions of these kinds, which a process serves. Their kinds must be registered. */
    readonly subscribe: (
      kinds: ReadonlyArray<string>,
      subscriptions: ReadonlyArray<NewSubscription>
    ) => Effect.Effect<void, DatabaseError>

    /** Removes a subscriber. A process that declares it adds it again when it starts. Fails with NotSubscribed. */
    readonly unsubscribe: (event: string, kind: string) => Effect.Effect<void, NotSubscribed | DatabaseError>

    /** All subscribers, by event and kind. */
    readonly subscriptions: Effect.Effect<ReadonlyArray<Subscription>, DatabaseError>

    /** Delivers earlier events to subscribers that start in the past. */
    readonly fill: Effect.Effect<Filled, DatabaseError>

    /**
     * Stores the jobs of windows that are quiet or full, or whose subscriber has none any more. Each event is in exactly one of
     * them. An event that is published in the meantime is in the next window.
     */
    readonly closeWindows: Effect.Effect<Closed, DatabaseError>

    /** Returns an event with its jobs. Fails with EventNotFound. */
    readonly get: (id: string) => Effect.Effect<EventDetails, EventNotFound | DatabaseError>

    /** Lists events, newest first. */
    readonly list: (request: {
      /** Maximum number of events. */
      readonly limit: number
      /** Only events of this name. [all] */
      readonly name?: string | undefined
      /** Cursor returned by the previous page. [the newest] */
      readonly cursor?: string | undefined
    }) => Effect.Effect<
      {
        /** One page of events. */
        readonly events: ReadonlyArray<StoredEvent>
        /** Cursor of the next page. Undefined on the last page. */
        readonly next: string | undefined
      },
      BadCursor | DatabaseError
    >

    /** Stores another job of the event for one subscriber, which must subscribe to it. */
    readonly replay: (id: string, kind: string) => Effect.Effect<JobId, EventNotFound | NotSubscribed | DatabaseError>

    /**
     * Stores a wait of an execution, or finds the event that ended it: the first since the execution was started that matches and
     * that no other wait of the execution has taken. Call it until it is settled: from then on a signal reports the event. With `ends`,
     * an event that is published later is left to the next wait.
     */
    readonly wait: (wait: EventWait) => Effect.Effect<WaitAnswer, DatabaseError>

    /**
     * Deletes events published longer ago than this, except those of open windows, and waits of executions that have ended.
     * Returns how many.
     */
    readonly purge: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>

    /** Deletes events of a subject, also from open windows. */
    readonly erase: Erase
  }
>() {}

/** Topic of hints for subscribers that start in the past. */
export const subscriptionTopic = "subscription"

/** The job of an event for a subscriber. The same as the SQL function `event_job`. */
export const jobIdOf = (event: string, kind: string): JobId => {
  const digest = createHash("md5").update(`${event} ${kind}`).digest("hex").slice(0, 12)
  return `${event.slice(0, 24)}${digest}` as JobId
}

/** The job of a window, by its first event: not the id of that event's own job. */
export const windowJobIdOf = (first: string, kind: string): JobId => jobIdOf(first, `${kind} window`)

/** Maximum size of the list of a window in bytes. With the event that exceeds it, a payload is below its limit. */
export const maxWindowBytes = 900_000

/** The instant of the next look: when the next window is due, but soon enough to find one that is full. */
export const nextLook = (now: number, debounce: number, due: number = Number.POSITIVE_INFINITY): number =>
  Math.min(Math.max(due, now), now + Math.min(5_000, Math.max(200, debounce / 5)))

/** An event that was checked, with its data as JSON and the digest of its subject. */
export interface CheckedEvent extends Omit<NewEvent, "data" | "subject"> {
  readonly data: string
  readonly subject: SubjectDigest | undefined
}

const faultOf = ({ id, key, name, subject }: NewEvent): readonly [string, string] | undefined => {
  const badName = faultOfText(name, limits.nameCharacters)
  if (badName !== undefined) return ["name", badName]
  const badKey = key === undefined ? undefined : faultOfText(key, limits.keyCharacters)
  if (badKey !== undefined) return ["key", badKey]
  const badSubject = subject === undefined ? undefined : faultOfText(subject, subjectCharacters)
  if (badSubject !== undefined) return ["subject", badSubject]
  const badId = id === undefined ? undefined : faultOfText(id, limits.signalCharacters)
  return badId === undefined ? undefined : ["id", badId]
}

/** Checks events. Returns them with their data as JSON. Those without a subject get this one. */
export const checked = (
  events: ReadonlyArray<NewEvent>,
  own?: SubjectDigest
): Either.Either<ReadonlyArray<CheckedEvent>, InvalidEvent> => {
  if (events.length === 0 || events.length > maxEvents) {
    const reason = `must contain 1 to ${maxEvents} events, got ${events.length}`
    return Either.left(new InvalidEvent({ index: 0, field: "events", reason }))
  }
  const made: Array<CheckedEvent> = []
  for (const [index, event] of events.entries()) {
    const fault = faultOf(event)
    if (fault !== undefined) return Either.left(new InvalidEvent({ index, field: fault[0], reason: fault[1] }))
    const data = jsonText(event.data, limits.resultBytes)
    if (Either.isLeft(data)) {
      const advice = data.left.includes("bytes as JSON") ? ". Publish the key under which you store it" : ""
      return Either.left(new InvalidEvent({ index, field: "data", reason: `${data.left}${advice}` }))
    }
    const subject = event.subject === undefined ? own : digestOf(event.subject)
    made.push({ name: event.name, key: event.key, id: event.id, subject, data: data.right })
  }
  return Either.right(made)
}

/** Fails with EventNotFound for what is no id. */
export const checkedId = (id: string): Effect.Effect<string, EventNotFound> =>
  isId(id) ? Effect.succeed(id) : new EventNotFound({ id: id.slice(0, 64) })

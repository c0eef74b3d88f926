import type { State } from "../../core/StoredJob.js"

// Types without Effect: the views of programs that use promises are made from them.

/** What happened to an event that was published. */
export interface Published {
  /** UUID of the event; of the first one, if it was published before. */
  readonly id: string
  /** `published` if the event was stored, `repeated` if an event of this name with the same id exists. */
  readonly outcome: "published" | "repeated"
  /** Number of jobs that were stored, one for each subscriber. 0 if the event is repeated. */
  readonly jobs: number
}

/** A published event. Instants are epoch milliseconds. */
export interface StoredEvent {
  /** UUID that was generated when the event was published. */
  readonly id: string
  /** Name of the event. */
  readonly name: string
  /** When the event was stored. */
  readonly publishedAt: number
  /** Key of the event's jobs. */
  readonly key: string | undefined
  /** Id that the publisher chose. */
  readonly ownId: string | undefined
  /** Data as it was published. */
  readonly data: unknown
}

/** The job of an event for one subscriber. */
export interface EventJob {
  /** Kind of the subscriber. */
  readonly subscriber: string
  /** Id of the job. */
  readonly id: string
  /** State of the job. Undefined if there is no job: it was deleted, did not match, or the subscriber is newer than the event. */
  readonly state: State | undefined
  /** Whether an operator made the job by replaying the event. */
  readonly replayed: boolean
}

/** An event with its jobs. */
export interface EventDetails extends StoredEvent {
  /** One entry per current subscriber of the event, and one per replay. */
  readonly jobs: ReadonlyArray<EventJob>
}

/** A subscriber: events of this name make jobs of this kind. Instants are epoch milliseconds. */
export interface Subscription {
  /** Name of the event. */
  readonly event: string
  /** Kind of the jobs. */
  readonly subscriber: string
  /** When a process first declared it. */
  readonly createdAt: number
  /** Since when earlier events are being delivered. Undefined if they are delivered, or if there were none to deliver. */
  readonly fillFromAt: number | undefined
}

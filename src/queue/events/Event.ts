import type { DurationInput } from "../../core/DurationInput.js"
import type { State } from "../../core/StoredJob.js"

// Types without Effect: the views of programs that use promises are made from them.

/** How one event differs from others of its name. */
export interface PublishOptions {
  /** Key of the event's jobs: jobs that share a key can be limited or ordered together. [none] */
  readonly key?: string | undefined
  /** Whose data the event has, such as `customer:42`. Its jobs have the same subject. Only a digest is stored. [none] */
  readonly subject?: string | undefined
  /** Names the event, up to 256 characters: a second event of this name with the same id is not stored. [none] */
  readonly id?: string | undefined
}

/** Which events a subscriber gets, and how their jobs run. */
export interface SubscriberOptions<in A> {
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
  /** Time limit of one attempt. [15 minutes] */
  readonly timeout?: DurationInput | undefined
  /** Lower runs first, from -32768 to 32767. [0] */
  readonly priority?: number | undefined
}

/** Makes one job of several events: the handler gets a list. */
export interface WindowOptions {
  /** How long after the last event the job is stored, at most 1 day. */
  readonly debounce: DurationInput
  /** With this many events, up to 500, the job is stored without waiting for `debounce`. [100] */
  readonly max?: number | undefined
  /**
   * Path, such as `"data.customer"`, or list of paths: events with different values there are in different jobs. So are events
   * with a different `key`. [none]
   */
  readonly by?: string | ReadonlyArray<string> | undefined
}

/** No options of windows: each event makes a job. */
export type NoWindow = { readonly [Option in keyof WindowOptions]?: undefined }

/** How a subscriber joins events. */
export interface Window {
  /** How long after its last event a window is closed, in milliseconds. */
  readonly debounce: number
  /** A window with this many events is closed at once. */
  readonly max: number
  /** Paths in the data, each a list of names: events of one window have the same values there. */
  readonly by: ReadonlyArray<ReadonlyArray<string>>
}

/** Paths that are compared, and their values in the same order. */
export interface Match {
  /** Paths in the data, each a list of names. */
  readonly paths: ReadonlyArray<ReadonlyArray<string>>
  /** Value of each path. */
  readonly values: ReadonlyArray<unknown>
}

/** What happened to an event that was published. */
export interface Published {
  /** UUID of the event; of the first one, if it was published before. */
  readonly id: string
  /** `published` if the event was stored, `repeated` if an event of this name with the same id exists. */
  readonly outcome: "published" | "repeated"
  /** Number of jobs that were stored, one for each subscriber without a window. 0 if the event is repeated. */
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
  /** Whether the event waits for further ones, with which it will be in one job. */
  readonly isOpen: boolean
  /** Number of events that the job has. 0 without a job. */
  readonly events: number
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
  /** How events are joined. Undefined if each makes a job. */
  readonly window: Window | undefined
  /** Values that an event must have. Undefined if all events make jobs. */
  readonly match: Match | undefined
  /** Whether it selects or joins events by values of their data. */
  readonly compares: boolean
}

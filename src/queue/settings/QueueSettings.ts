import { Context, type Duration, type Effect, Schema } from "effect"
import type { DatabaseError } from "../../database/DatabaseError.js"

/** How jobs of one key follow each other where only one may run: in order past one that waits for its retry, or never past it. */
export const KeyOrder = Schema.Literal("none", "serial", "strict")
export type KeyOrder = typeof KeyOrder.Type

/** A queue's settings row, as operators see it. */
export interface QueueSettings {
  readonly name: string
  /** How many slots the whole cluster gives this queue: a target. [10] */
  readonly maxWorkers: number
  readonly paused: boolean
  /** Absent: `QUEUE_DONE_RETENTION`. */
  readonly retainDone: Duration.Duration | undefined
  /** Absent: dead jobs stay. */
  readonly retainDead: Duration.Duration | undefined
  /** The queue's own curve for retries and cool-downs, where enabled. */
  readonly backoff: { readonly enabled: boolean; readonly base: Duration.Duration; readonly max: Duration.Duration }
  /**
   * A hard limit on claims, cluster-wide: a bucket of `jobs` tokens that refills evenly over `per`. After a quiet time that
   * many may begin at once; from then on one each time `per / jobs` has passed.
   */
  readonly rate: { readonly jobs: number; readonly per: Duration.Duration } | undefined
  /** At most so many jobs of one key run at a time, cluster-wide: a hard limit. */
  readonly perKey: { readonly concurrency: number; readonly order: KeyOrder } | undefined
  /** While so many jobs wait, now or for later, an enqueue is refused. */
  readonly depthCap: number | undefined
  /** Nothing is claimed before this instant, in epoch milliseconds: the queue cools down. */
  readonly throttledUntil: number | undefined
  /** How many cool-downs by the curve have followed each other without a calm stretch: delays an upstream gave are not counted. */
  readonly throttleAttempts: number
  /** Rises with every change an operator makes. */
  readonly revision: number
}

/** What an operator may change. A field that is absent stays as it is; `null` sets it back to its default. */
export interface QueueSettingsPatch {
  readonly maxWorkers?: number | undefined
  readonly paused?: boolean | undefined
  readonly retainDone?: Duration.Duration | null | undefined
  readonly retainDead?: Duration.Duration | null | undefined
  readonly backoff?: Partial<QueueSettings["backoff"]> | undefined
  readonly rate?: QueueSettings["rate"] | null | undefined
  readonly perKey?: QueueSettings["perKey"] | null | undefined
  readonly depthCap?: number | null | undefined
  /** Ends a cool-down at once. */
  readonly throttledUntil?: null | undefined
}

/** Nobody has declared a queue of this name. */
export class QueueNotFound extends Schema.TaggedError<QueueNotFound>()("QueueNotFound", { name: Schema.String }) {
  override get message(): string {
    return `There is no queue "${this.name}".`
  }
}

/** A setting that cannot be. */
export class InvalidSetting extends Schema.TaggedError<InvalidSetting>()("InvalidSetting", {
  field: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.field} ${this.reason}.`
  }
}

/** Where it is said which queue's settings have changed. */
export const settingsTopic = "settings"

/** The queues there are, and what operators want of each. */
export class Queues extends Context.Tag("nightshift/queue/Queues")<
  Queues,
  {
    /** Gives each of these queues a settings row unless it has one. Never changes one that stands. */
    readonly declare: (names: ReadonlyArray<string>) => Effect.Effect<void, DatabaseError>

    /** Every settings row, by name. */
    readonly all: Effect.Effect<ReadonlyArray<QueueSettings>, DatabaseError>

    readonly get: (name: string) => Effect.Effect<QueueSettings, QueueNotFound | DatabaseError>

    /** Changes what the patch names, all or nothing. Once it returns, no claim goes by the old settings any more. */
    readonly change: (
      name: string,
      patch: QueueSettingsPatch
    ) => Effect.Effect<
      { readonly before: QueueSettings; readonly after: QueueSettings },
      QueueNotFound | InvalidSetting | DatabaseError
    >

    /** What this process last knew of the queue, without asking anyone; at most a poll old where the queue is served. */
    readonly known: (name: string) => QueueSettings | undefined
  }
>() {}

import { Context, type Duration, type Effect, Schema } from "effect"
import { Expected } from "../../core/ExpectedError.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import * as Limits from "./QueueLimits.js"

/**
 * Order of the jobs of a key, with one running at a time. `serial`: in order, but jobs may overtake one that waits for
 * its retry. `strict`: no job overtakes another.
 */
export type KeyOrder = Limits.KeyOrder
export const KeyOrder = Schema.Literal(...Limits.keyOrders)

/** The current settings of a queue and the state of its cool-down. */
export interface QueueSettings extends Limits.PlainSettings {
  /** How long done jobs are kept. [QUEUE_DONE_RETENTION] */
  readonly retainDone: Duration.Duration | undefined
  /** How long dead jobs are kept. [forever] */
  readonly retainDead: Duration.Duration | undefined
  /** The queue's own backoff for retries and cool-downs, if enabled. */
  readonly backoff: {
    /** Whether retries and cool-downs follow this backoff. [false] */
    readonly enabled: boolean
    /** First delay. Each further failure or cool-down doubles it. [60s] */
    readonly base: Duration.Duration
    /** Longest delay between attempts or of a cool-down. [30m] */
    readonly max: Duration.Duration
  }
  /**
   * Cluster-wide limit on claims: a bucket of `jobs` tokens that refills evenly over `per`. After an idle period up to
   * `jobs` jobs can start at once, then one every `per / jobs`.
   */
  readonly rate:
    | {
        /** Jobs that may start in each period. */
        readonly jobs: number
        /** Length of the period. */
        readonly per: Duration.Duration
      }
    | undefined
  /** End of the queue's cool-down, in epoch milliseconds. No job is claimed before it. */
  readonly throttledUntil: number | undefined
  /** 1 when the queue is created; increases with every change. */
  readonly revision: number
}

/** Changes to a queue's settings. An absent field is unchanged; `null` restores the default. */
export interface QueueSettingsPatch {
  /** Target number of slots for this queue in the whole cluster. */
  readonly maxWorkers?: number | undefined
  /** `true` stops claims until the queue is resumed; running jobs finish. */
  readonly paused?: boolean | undefined
  /** How long done jobs are kept. `null` restores QUEUE_DONE_RETENTION. */
  readonly retainDone?: Duration.Duration | null | undefined
  /** How long dead jobs are kept. `null` keeps them forever. */
  readonly retainDead?: Duration.Duration | null | undefined
  /** Changes the given parts of the queue's own backoff. */
  readonly backoff?: Partial<QueueSettings["backoff"]> | undefined
  /** Cluster-wide limit on job starts. `null` removes it. */
  readonly rate?: QueueSettings["rate"] | null | undefined
  /** Limit on running jobs per key. `null` removes it. */
  readonly perKey?: QueueSettings["perKey"] | null | undefined
  /** Maximum number of waiting jobs. Enqueues beyond it fail. `null` removes it. */
  readonly depthCap?: number | null | undefined
  /** Ends a cool-down immediately. */
  readonly throttledUntil?: null | undefined
}

/** No process has declared a queue of this name. */
export class QueueNotFound extends Expected<QueueNotFound>(404)("QueueNotFound", {
  /** Name that was looked up. */
  name: Schema.String
}) {
  override get message(): string {
    return `There is no queue "${this.name}": no process has declared it. Check the name, or start a process that serves it. To set it up before its first process, pause it first: pausing creates it.`
  }
}

/** A setting of a queue is invalid. Nothing was changed. */
export class InvalidSetting extends Expected<InvalidSetting>(400, { code: "INVALID_OPTION" })("InvalidSetting", {
  /** Name of the invalid setting, such as `rate` or `backoff.base`. */
  field: Schema.String,
  /** What is wrong with the setting, as the end of a sentence. */
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.field} ${this.reason}${this.reason.endsWith("?") || this.reason.endsWith(".") ? "" : "."}`
  }
}

/** A setting that a worker can declare. */
export type QueueField = Exclude<keyof QueueSettingsPatch, "paused" | "throttledUntil">

/** What a declaration did: the fields it set, and those where the value of an operator stays. */
export interface DeclaredSettings {
  /** Fields that now have the declared value. */
  readonly set: ReadonlyArray<QueueField>
  /** Fields that keep the value of an operator. */
  readonly kept: ReadonlyArray<{
    /** Setting that differs, such as `rate`. */
    readonly field: QueueField
    /** Value that an operator set, as text. */
    readonly value: string
    /** Value that the code declares, as text. */
    readonly declared: string
  }>
}

/** Topic of hints with the name of a queue whose settings changed. */
export const settingsTopic = "settings"

/** The declared queues and their settings. */
export class Queues extends Context.Tag("nightshift/queue/Queues")<
  Queues,
  {
    /** Creates a settings row for each of these queues. Never changes an existing row. */
    readonly declare: (names: ReadonlyArray<string>) => Effect.Effect<void, DatabaseError>

    /**
     * Applies the settings that a worker declares for a queue. The last declaration of a field applies, whichever worker made
     * it. A value that an operator has set stays: one that differs from the last declaration, or from the default before
     * the first. Setting the declared value gives the field back to the code. In a fleet, a rate is that of the whole queue: a
     * queue that several cells have gets its share in each.
     */
    readonly declareSettings: (
      name: string,
      settings: QueueSettingsPatch
    ) => Effect.Effect<DeclaredSettings, QueueNotFound | InvalidSetting | DatabaseError>

    /** All declared queues, by name. */
    readonly all: Effect.Effect<ReadonlyArray<QueueSettings>, DatabaseError>

    /** Returns the settings of a queue. Fails with QueueNotFound. */
    readonly get: (name: string) => Effect.Effect<QueueSettings, QueueNotFound | DatabaseError>

    /**
     * Applies a patch, all or nothing. Once it returns, no claim uses the old settings. A patch that pauses an undeclared queue
     * creates it.
     */
    readonly change: (
      name: string,
      patch: QueueSettingsPatch
    ) => Effect.Effect<
      {
        /** Settings before the change. */
        readonly before: QueueSettings
        /** Settings after the change. */
        readonly after: QueueSettings
      },
      QueueNotFound | InvalidSetting | DatabaseError
    >

    /** The cached settings, without a query; at most one poll interval old if this process serves the queue. */
    readonly known: (name: string) => QueueSettings | undefined
  }
>() {}

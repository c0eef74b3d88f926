import type { DurationInput } from "../../core/DurationInput.js"

// Settings of queues as code writes them: declared beside the queues of a worker, or passed to a change.

export const keyOrders = ["none", "serial", "strict"] as const

/**
 * Order of the jobs of a key, with one running at a time. `serial`: in order, but jobs may overtake one that waits for
 * its retry. `strict`: no job overtakes another.
 */
export type KeyOrder = (typeof keyOrders)[number]

/** Limits of a queue for the whole cluster. An absent field is unchanged; `null` restores the default. */
export interface QueueLimits {
  /** Maximum number of its jobs that run at a time in the whole cluster. [10] */
  readonly maxWorkers?: number | undefined
  /** Maximum number of running jobs with the same `key`, and their order. `1` is `{ concurrency: 1, order: "none" }`. */
  readonly perKey?:
    | number
    | {
        /** Maximum number of running jobs with the same key. */
        readonly concurrency: number
        /** Whether the jobs of a key run in the order of their enqueue. Needs a concurrency of 1. [`none`] */
        readonly order?: KeyOrder | undefined
      }
    | null
    | undefined
  /** Maximum number of jobs that start in a period, in the whole cluster. `"100/m"` is `{ jobs: 100, per: "1m" }`. In a fleet, a worker declares the rate of the whole queue, and a change is about one cell. */
  readonly rate?:
    | `${number}/${string}`
    | {
        /** Jobs that may start in each period. After an idle period they may start at once. */
        readonly jobs: number
        /** Length of the period. */
        readonly per: DurationInput
      }
    | null
    | undefined
  /** Maximum number of waiting jobs. Beyond it, `enqueue` fails because the queue is full. */
  readonly depthCap?: number | null | undefined
  /** How long done jobs are kept. [QUEUE_DONE_RETENTION, else 7 days] */
  readonly retainDone?: DurationInput | null | undefined
  /** How long dead jobs are kept. [forever] */
  readonly retainDead?: DurationInput | null | undefined
  /** The backoff of cool-downs, and of kinds that declare none. */
  readonly backoff?:
    | {
        /** Whether the queue has its own backoff. [false: cool-downs last 60s, and retries follow the kind] */
        readonly enabled?: boolean | undefined
        /** First delay. Each further failure or cool-down doubles it. [60s] */
        readonly base?: DurationInput | undefined
        /** Longest delay between attempts or of a cool-down. [30m] */
        readonly max?: DurationInput | undefined
      }
    | undefined
}

/** How many workers this process has for a queue, and the queue's limits in the whole cluster. */
export interface QueueDeclaration extends QueueLimits {
  /** Maximum number of its jobs that run at a time in this process. A new queue also gets it as `maxWorkers`. */
  readonly workers?: number | undefined
}

/** The queues of a worker: names, or an object with the number of workers, or limits, of each. */
export type DeclaredQueues = ReadonlyArray<string> | Readonly<Record<string, number | QueueDeclaration>>

/** Routes declared in code or settings, as queues by prefix. `null` removes an earlier route. */
export type DeclaredRoutes = Readonly<Record<string, string | null>>

/** The settings of a queue that are the same in every API. */
export interface PlainSettings {
  /** Name of the queue: 1 to 64 letters, digits, `_`, `.` or `-`. */
  readonly name: string
  /** Target number of slots for this queue in the whole cluster. [10] */
  readonly maxWorkers: number
  /** Whether no job of the queue starts until an operator resumes it. */
  readonly paused: boolean
  /** Cluster-wide limit on the number of running jobs per key. */
  readonly perKey:
    | {
        /** Maximum number of running jobs with the same key. */
        readonly concurrency: number
        /** Whether the jobs of a key run in the order of their enqueue. */
        readonly order: KeyOrder
      }
    | undefined
  /** Maximum number of waiting jobs, due or scheduled. Enqueues beyond it fail. */
  readonly depthCap: number | undefined
  /** Number of successive cool-downs without a calm period. Cool-downs with a delay from the upstream do not count. */
  readonly throttleAttempts: number
}

// What the API answers, as far as the pages use it.

export const states = ["scheduled", "retrying", "pending", "running", "done", "dead"] as const
export type State = (typeof states)[number]

export interface Attempt {
  readonly attempt: number
  readonly pod: string
  readonly startedAt: string
  readonly endedAt: string
  readonly outcome: string
  readonly message: string | null
}

export interface Job {
  readonly id: string
  readonly kind: string
  readonly queue: string
  readonly state: State
  readonly status: "pending" | "running" | "done" | "dead"
  readonly payload: unknown
  readonly attempt: number
  readonly maxAttempts: number
  readonly priority: number
  readonly runAt: string
  readonly createdAt: string
  readonly startedAt: string | null
  readonly finishedAt: string | null
  readonly lastError: string | null
  readonly errors: ReadonlyArray<Attempt>
  readonly deadReason: string | null
  readonly result: unknown
  readonly progress: unknown
  readonly dedupe: { readonly key: string; readonly scope: string } | null
  readonly pod: string | null
  readonly meta: unknown
}

export interface Total {
  readonly count: number
  readonly exact: boolean
}

export interface JobPage {
  readonly jobs: ReadonlyArray<Job>
  readonly next: string | null
  readonly total: Total
}

export interface Why {
  readonly reason: string
  readonly detail: string
  readonly until?: string | null
}

/** A number that may be a lower bound. */
export const countText = ({ count, exact }: Total): string => `${count.toLocaleString()}${exact ? "" : "+"}`

export interface Queue {
  readonly name: string
  readonly counts: Readonly<Record<State, number>>
  readonly oldestDueAgeSeconds: number | null
  readonly paused: boolean
  readonly maxWorkers: number
  readonly retainDone: number | null
  readonly retainDead: number | null
  readonly backoff: { readonly enabled: boolean; readonly base: number; readonly max: number }
  readonly limits: {
    readonly rate: { readonly jobs: number; readonly per: number } | null
    readonly perKey: { readonly concurrency: number; readonly order: string } | null
    readonly depthCap: number | null
  }
  readonly throttledUntil: string | null
  readonly throttleAttempts: number
  readonly declared: boolean
}

export interface Latency {
  readonly count: number
  readonly sum: number
  readonly p50: number | null
  readonly p95: number | null
  readonly p99: number | null
  readonly max: number | null
}

export interface Series {
  readonly since: string
  readonly until: string
  readonly bucketSeconds: number
  readonly points: ReadonlyArray<{
    readonly at: string
    readonly enqueued: number
    readonly started: number
    readonly completed: number
    readonly retried: number
    readonly dead: number
    readonly rescued: number
    readonly processing: Latency
    readonly total: Latency
  }>
}

/** A count as a person reads it at a glance. */
export const brief = (count: number): string =>
  count < 10_000
    ? count.toLocaleString()
    : new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(count)

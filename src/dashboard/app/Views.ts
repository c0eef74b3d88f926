// Response types of the API, limited to the fields that the pages use.

export const states = ["scheduled", "retrying", "pending", "running", "done", "dead", "cancelled"] as const
export type State = (typeof states)[number]

export const deadReasons = ["exhausted", "rejected", "cancelled", "undecodable", "unknown_kind", "poison"] as const

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

/** A job after an action, with the id to undo it; null if it cannot be undone. */
export interface ActedJob extends Job {
  readonly undo: string | null
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

/** A named job filter. */
export interface SavedView {
  readonly id: string
  readonly name: string
  readonly page: string
  readonly filter: Readonly<Record<string, unknown>>
}

export interface Why {
  readonly reason: string
  readonly detail: string
  /** When the condition ends by itself, if known. */
  readonly until?: string
}

/** Formats a count; `+` marks a lower bound. */
export const countText = ({ count, exact }: Total): string => `${count.toLocaleString()}${exact ? "" : "+"}`

export interface Queue {
  readonly name: string
  readonly counts: Readonly<Record<State, number>>
  /** States whose count is an estimate or a lower bound. */
  readonly approximate: ReadonlyArray<State>
  readonly oldestDueAgeSeconds: number | null
  readonly utilisation: number | null
  readonly throughput: { readonly seconds: number; readonly completed: number; readonly dead: number } | null
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

export interface QueueSeries {
  readonly since: string
  readonly until: string
  readonly bucketSeconds: number
  readonly queues: ReadonlyArray<{
    readonly queue: string
    readonly completed: ReadonlyArray<number>
    readonly dead: ReadonlyArray<number>
  }>
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

/** Formats a count in short form: `9,999`, `10.5K`. */
export const brief = (count: number): string =>
  count < 10_000
    ? count.toLocaleString()
    : new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(count)

export interface Schedule {
  readonly name: string
  readonly kind: string
  readonly payload: unknown
  readonly cron: string
  readonly timezone: string
  readonly words: string | null
  readonly overlap: "allow" | "skip"
  readonly missed: unknown
  readonly enabled: boolean
  readonly queue: string | null
  readonly lastFireAt: string | null
  readonly nextFireAt: string | null
  readonly lastSkipAt: string | null
  readonly lastError: string | null
  readonly lastJobId: string | null
  readonly origin: "code" | "operator"
  readonly edited: ReadonlyArray<string>
}

export interface ScheduleRun {
  readonly outcome: "fired" | "caughtUp" | "triggered" | "skipped" | "missed"
  readonly at: string
  readonly since: string
  readonly jobId: string | null
  readonly jobState: State | null
  readonly by: string | null
}

export interface ScheduleHistory {
  readonly timezone: string
  readonly runs: ReadonlyArray<ScheduleRun>
}

export interface Pod {
  readonly id: string
  readonly label: string | null
  readonly version: string
  readonly queues: ReadonlyArray<string>
  readonly kinds: ReadonlyArray<string>
  readonly slots: ReadonlyArray<{
    readonly queue: string
    readonly wanted: number
    readonly have: number
    readonly busy: number
  }>
  readonly runningJobs: number
  readonly host: { readonly name: string; readonly pid: number; readonly node: string }
  readonly startedAt: string
  readonly heartbeatAgeSeconds: number
  readonly server: string | null
  readonly draining: boolean
  readonly leader: boolean
}

export interface PodMeasures {
  readonly pods: ReadonlyArray<{
    readonly pod: string
    readonly points: ReadonlyArray<{
      readonly at: string
      readonly cpu: number
      readonly rssBytes: number
      readonly eventLoopDelay: { readonly p99: number; readonly max: number }
      readonly pool: { readonly busy: number; readonly idle: number; readonly waiting: number }
    }>
  }>
}

export interface Limit {
  readonly scope: string
  readonly capacity: number
  readonly rate: number
  readonly tokens: number
  readonly lent: number
  readonly dryUntil: string | null
  readonly tuned: boolean
  readonly declared: { readonly capacity: number; readonly rate: number }
}

export interface DatabaseHealth {
  readonly now: {
    readonly at: string
    readonly sizeBytes: number
    readonly jobBytes: number
    readonly jobLiveTuples: number
    readonly jobDeadTuples: number
    readonly oldestTransactionSeconds: number
    readonly connections: number
    readonly blockers: ReadonlyArray<{
      readonly what: string
      readonly name: string
      readonly user: string | null
      readonly application: string | null
      readonly state: string | null
      readonly seconds: number | null
    }>
  }
  readonly statements: Latency
  readonly points: ReadonlyArray<{ readonly at: string; readonly jobBytes: number; readonly jobDeadTuples: number }>
}

/** The count of a state; `~` marks an estimate. */
export const stateCount = (queues: ReadonlyArray<Pick<Queue, "approximate" | "counts">>, state: State): string => {
  const sum = queues.reduce((all, { counts }) => all + counts[state], 0)
  return `${queues.some(({ approximate }) => approximate.includes(state)) ? "~" : ""}${brief(sum)}`
}

export const bytesText = (bytes: number): string => {
  if (bytes < 1024) return `${bytes} B`
  const [size, unit] = bytes >= 2 ** 30 ? [2 ** 30, "GiB"] : bytes >= 2 ** 20 ? [2 ** 20, "MiB"] : [1024, "KiB"]
  return `${(bytes / (size as number)).toFixed(1)} ${unit}`
}

/** Fields shared by bots and webhook sources. */
interface Hook {
  readonly path: string
  readonly counts: Readonly<Record<string, number>>
  readonly lastSeenAt: string | null
}

export interface Bot extends Hook {
  readonly slug: string
  readonly handler: string
  readonly target: string | null
  readonly mode: "sync" | "async"
  readonly requireAuth: boolean
  readonly chatOrder: string
  readonly onError: "apologize" | "redeliver"
  readonly queue: string | null
}

export interface Source extends Hook {
  readonly name: string
  readonly style: string
  readonly kind: string
}

export interface Delivery {
  readonly id: string
  readonly firstSeenAt: string
  readonly lastSeenAt: string
  readonly redelivered: number
  readonly outcome: string
  readonly job: { readonly id: string; readonly state: State | null } | null
}

export const uploadStates = ["waiting", "fetched", "acked", "expired"] as const
export type UploadState = (typeof uploadStates)[number]

export interface UploadsOverview {
  readonly counts: Readonly<Record<UploadState, number>>
  readonly stuck: ReadonlyArray<{
    readonly workspace: string
    readonly files: number
    readonly bytes: number
    readonly waitingSeconds: number
  }>
}

export interface UploadedFile {
  readonly id: string
  readonly workspace: string
  readonly name: string
  readonly originalName: string
  readonly mimeType: string
  readonly size: number
  readonly sha256: string
  readonly state: UploadState
  readonly createdAt: string
  readonly expiresAt: string
  readonly fetchedAt: string | null
  readonly ackedAt: string | null
}

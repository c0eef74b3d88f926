import { Duration } from "effect"
import type { QueueRow } from "./QueueRow.js"
import type { KeyOrder } from "./QueueSettings.js"

// Rows of the queue table, to and from SQL. Instants and durations travel as milliseconds.

const millis = (column: string) => `floor(extract(epoch from ${column}) * 1000)::float8 as ${column}`

/** What `toRow` reads. */
export const columns = `name, max_workers, paused, ${millis("retain_done")}, ${millis("retain_dead")}, backoff_enabled,
  ${millis("backoff_base")}, ${millis("backoff_max")}, rate_jobs, ${millis("rate_per")}, rate_tokens,
  ${millis("rate_filled_at")}, key_concurrency, key_order, depth_cap, ${millis("throttled_until")}, throttle_attempts,
  ${millis("calm_since")}, ${millis("keys_cooling_until")}, revision`

export interface QueueColumns {
  readonly name: string
  readonly max_workers: number
  readonly paused: boolean
  readonly retain_done: number | null
  readonly retain_dead: number | null
  readonly backoff_enabled: boolean
  readonly backoff_base: number
  readonly backoff_max: number
  readonly rate_jobs: number | null
  readonly rate_per: number | null
  readonly rate_tokens: number | null
  readonly rate_filled_at: number | null
  readonly key_concurrency: number | null
  readonly key_order: KeyOrder | null
  readonly depth_cap: number | null
  readonly throttled_until: number | null
  readonly throttle_attempts: number
  readonly calm_since: number | null
  readonly keys_cooling_until: number | null
  readonly revision: number
}

const optionalSpan = (value: number | null) => (value === null ? undefined : Duration.millis(value))

export const toRow = (row: QueueColumns): QueueRow => ({
  name: row.name,
  maxWorkers: row.max_workers,
  paused: row.paused,
  retainDone: optionalSpan(row.retain_done),
  retainDead: optionalSpan(row.retain_dead),
  backoff: {
    enabled: row.backoff_enabled,
    base: Duration.millis(row.backoff_base),
    max: Duration.millis(row.backoff_max)
  },
  rate:
    row.rate_jobs === null || row.rate_per === null
      ? undefined
      : { jobs: row.rate_jobs, per: Duration.millis(row.rate_per) },
  perKey:
    row.key_concurrency === null || row.key_order === null
      ? undefined
      : { concurrency: row.key_concurrency, order: row.key_order },
  depthCap: row.depth_cap ?? undefined,
  throttledUntil: row.throttled_until ?? undefined,
  throttleAttempts: row.throttle_attempts,
  calmSince: row.calm_since ?? undefined,
  keysCoolingUntil: row.keys_cooling_until ?? undefined,
  bucket:
    row.rate_tokens === null || row.rate_filled_at === null
      ? undefined
      : { tokens: row.rate_tokens, filledAt: row.rate_filled_at },
  revision: row.revision
})

const span = (parameter: string) => `make_interval(secs => ${parameter}::float8 / 1000)`
const instant = (parameter: string) => `to_timestamp(${parameter}::float8 / 1000)`

/** Statements about the rows of queues. */
export const make = (schema: string) => ({
  declare: `
  insert into ${schema}.queue (name, created_at, updated_at)
  select name, ${instant("$2")}, ${instant("$2")} from unnest($1::text[]) as name order by name
  on conflict do nothing`,

  all: `select ${columns} from ${schema}.queue order by name collate "C"`,

  some: `select ${columns} from ${schema}.queue where name = any($1::text[])`,

  /** The row, which nobody else changes until the transaction ends: claims under way are waited for. */
  locked: `select ${columns} from ${schema}.queue where name = $1 for update`,

  write: `
  update ${schema}.queue set max_workers = $2, paused = $3, retain_done = ${span("$4")}, retain_dead = ${span("$5")},
    backoff_enabled = $6, backoff_base = ${span("$7")}, backoff_max = ${span("$8")}, rate_jobs = $9,
    rate_per = ${span("$10")}, rate_tokens = $11, rate_filled_at = ${instant("$12")}, key_concurrency = $13,
    key_order = $14, depth_cap = $15, throttled_until = ${instant("$16")}, throttle_attempts = $17,
    calm_since = ${instant("$18")}, revision = $19, updated_at = ${instant("$20")}
  where name = $1`
})

const spanOf = (value: Duration.Duration | undefined) => (value === undefined ? null : Duration.toMillis(value))

/** Parameters of `write`. */
export const parameters = (row: QueueRow, now: number): ReadonlyArray<unknown> => [
  row.name,
  row.maxWorkers,
  row.paused,
  spanOf(row.retainDone),
  spanOf(row.retainDead),
  row.backoff.enabled,
  spanOf(row.backoff.base),
  spanOf(row.backoff.max),
  row.rate?.jobs ?? null,
  spanOf(row.rate?.per),
  row.bucket?.tokens ?? null,
  row.bucket?.filledAt ?? null,
  row.perKey?.concurrency ?? null,
  row.perKey?.order ?? null,
  row.depthCap ?? null,
  row.throttledUntil ?? null,
  row.throttleAttempts,
  row.calmSince ?? null,
  row.revision,
  now
]

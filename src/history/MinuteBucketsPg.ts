import { Duration, Effect, Layer } from "effect"
import { Database, within } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { instant } from "../database/SqlInstant.js"
import { named } from "../database/Statements.js"
import { type BucketCount, grains, type JobCounts, noCounts } from "../telemetry/BucketCount.js"
import { emptySketch, Histogram } from "../telemetry/Histogram.js"
import * as HistorySql from "./HistorySql.js"
import { bucketStart, during } from "./HistorySql.js"
import {
  type KindTotals,
  MinuteBuckets,
  maxMergedBuckets,
  maxTotals,
  type QueueCount,
  type SeriesPoint,
  TooMuchToMerge,
  throughputOf
} from "./MinuteBuckets.js"
import * as SketchBytes from "./SketchBytes.js"
import * as TimeGrid from "./TimeGrid.js"

/** Time limit for the query of a chart. */
const readLimit = Duration.seconds(10)
const batch = 500

const counters = Object.keys(noCounts)
const sums = counters.map((name) => `sum(${name})::float8 as ${name}`).join(", ")
const columns = [...counters, ...SketchBytes.columns("processing"), ...SketchBytes.columns("total")]
const wanted = `minutes = $3 and ${during("start")} and ($4::text is null or queue = $4) and ($5::text is null or kind = $5)`

const rows = {
  table: "job_bucket",
  key: "minutes, start, queue, kind, pod_id",
  // The index starts with the width, so every width is listed.
  old: (before: string) => `minutes in (${grains.join(", ")}) and start < ${before}`
}

const statementsOf = (schema: string) => ({
  record: `
  insert into ${schema}.job_bucket as standing (minutes, start, pod_id, revision, queue, kind, ${columns.join(", ")})
  select r.grain, ${instant("r.start")}, $2::uuid, $3::int, r.queue, r.kind,
    ${columns.map((name) => `r.${name}`).join(", ")}
  from jsonb_to_recordset($1::jsonb) as r(grain smallint, start float8, queue text, kind text,
    ${counters.map((name) => `${name} int`).join(", ")}, ${SketchBytes.types("processing")}, ${SketchBytes.types("total")})
  on conflict (minutes, start, queue, kind, pod_id) do update
  set revision = excluded.revision, ${columns.map((name) => `${name} = excluded.${name}`).join(", ")}
  where standing.revision < excluded.revision`,

  size: `
  select count(*)::int as rows
  from (select 1 from ${schema}.job_bucket where ${wanted} limit ${maxMergedBuckets + 1}) found`,

  series: `
  select ${bucketStart("start", "$6")} as at, ${sums}, ${SketchBytes.merged("processing")}, ${SketchBytes.merged("total")}
  from ${schema}.job_bucket where ${wanted} group by 1`,

  durations: `
  select ${SketchBytes.merged("processing")} from ${schema}.job_bucket where ${wanted}`,

  throughput: `
  select queue, ${bucketStart("start", "$6")} as at, sum(enqueued)::float8 as enqueued,
    sum(completed)::float8 as completed, sum(dead)::float8 as dead
  from ${schema}.job_bucket where ${wanted} and (enqueued > 0 or completed > 0 or dead > 0) group by 1, 2 order by 1`,

  totals: `
  select queue, kind, ${sums} from ${schema}.job_bucket where minutes = $3 and ${during("start")}
  group by queue, kind order by sum(dead) desc, sum(started) desc, queue, kind limit ${maxTotals}`
})

interface SeriesRow extends JobCounts {
  readonly at: number
  readonly processing_sum: number
  readonly processing_max: number
  readonly processing: Uint8Array | null
  readonly total_sum: number
  readonly total_max: number
  readonly total: Uint8Array | null
}

const countsOf = (row: JobCounts): JobCounts => ({
  enqueued: row.enqueued,
  started: row.started,
  completed: row.completed,
  retried: row.retried,
  dead: row.dead,
  cancelled: row.cancelled,
  rescued: row.rescued
})

const pointOf = (row: SeriesRow): SeriesPoint => {
  const total = Histogram.of(SketchBytes.decode(row.total, row.total_sum, row.total_max))
  return {
    at: row.at,
    ...countsOf(row),
    processing: SketchBytes.summary(row.processing, row.processing_sum, row.processing_max),
    total: total.summary(),
    totals: total.sketch()
  }
}

const nothing = Histogram.of(emptySketch).summary()
const emptyPoint = (at: number): SeriesPoint => ({
  at,
  ...noCounts,
  processing: nothing,
  total: nothing,
  totals: emptySketch
})

const recordOf = ({ processing, total, ...count }: BucketCount) => ({
  ...count,
  ...SketchBytes.fields("processing", processing),
  ...SketchBytes.fields("total", total)
})

const make = Effect.gen(function* () {
  const database = yield* Database
  const { schema, sql } = database
  const statements = named("bucket", statementsOf(schema))
  const reading = within(database, readLimit)

  /** Fails if there are too many rows to merge. */
  const checkSize = (wanted: ReadonlyArray<unknown>) =>
    Effect.gen(function* () {
      const [size] = yield* sql.unsafe<{ readonly rows: number }>(statements.size, wanted)
      if ((size?.rows ?? 0) > maxMergedBuckets) return yield* new TooMuchToMerge()
    })

  /** Returns rows by bucket. */
  const readMerged = <Row extends object>(
    statement: string,
    grid: TimeGrid.Grid,
    queue: string | null,
    kind: string | null
  ) =>
    Effect.gen(function* () {
      const wanted = [grid.from, grid.to, grid.grain, queue, kind]
      yield* checkSize(wanted)
      return yield* sql.unsafe<Row>(statement, [...wanted, grid.width])
    })

  return MinuteBuckets.of({
    record: (pod, revision, counts) => {
      const parts = Array.from({ length: Math.ceil(counts.length / batch) }, (_, part) =>
        counts.slice(part * batch, (part + 1) * batch)
      )
      return Effect.forEach(
        parts,
        (part) => mapErrors(sql.unsafe(statements.record, [JSON.stringify(part.map(recordOf)), pod, revision])),
        { discard: true }
      )
    },
    series: ({ kind, queue, width, ...range }) =>
      Effect.gen(function* () {
        const grid = yield* TimeGrid.of(range, width)
        const rows = yield* reading(readMerged<SeriesRow>(statements.series, grid, queue ?? null, kind ?? null))
        return TimeGrid.fill(grid, new Map(rows.map((row) => [row.at, pointOf(row)])), emptyPoint)
      }),
    durations: ({ kind, queue, ...range }) => {
      const { from, grain, to } = TimeGrid.outline(range)
      const wanted = [from, to, grain, queue ?? null, kind ?? null]
      return reading(
        Effect.zipRight(
          checkSize(wanted),
          Effect.map(sql.unsafe<SeriesRow>(statements.durations, wanted), ([row]) =>
            Histogram.of(
              SketchBytes.decode(row?.processing ?? null, row?.processing_sum ?? null, row?.processing_max ?? null)
            )
          )
        )
      )
    },
    throughput: ({ width, ...range }) =>
      Effect.gen(function* () {
        const grid = yield* TimeGrid.of(range, width)
        return throughputOf(grid, yield* reading(readMerged<QueueCount>(statements.throughput, grid, null, null)))
      }),
    totals: (range) => {
      const { from, grain, to } = TimeGrid.outline(range)
      return Effect.map(reading(sql.unsafe<KindTotals>(statements.totals, [from, to, grain])), (rows) =>
        rows.map((row) => ({ queue: row.queue, kind: row.kind, ...countsOf(row) }))
      )
    },
    purge: (olderThan) => HistorySql.purgeRows(database, rows, olderThan)
  })
})

export const layer: Layer.Layer<MinuteBuckets, never, Database> = Layer.effect(MinuteBuckets, make)

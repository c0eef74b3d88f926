import { Duration, Effect, Layer } from "effect"
import * as Bounded from "../database/Bounded.js"
import { Database } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { emptySketch, Histogram } from "../telemetry/Histogram.js"
import { type JobCounts, type MinuteCount, noCounts } from "../telemetry/MinuteCount.js"
import * as Grid from "./Grid.js"
import { type KindTotals, MinuteBuckets, mostTotals, type SeriesPoint } from "./MinuteBuckets.js"
import * as OldRows from "./OldRows.js"
import * as SketchSql from "./SketchSql.js"

/** The longest that a chart may keep the database busy. */
const readLimit = Duration.seconds(10)
/** How many rows one statement writes. */
const batch = 500

const instant = (parameter: string) => `to_timestamp(${parameter}::float8 / 1000)`
const counters = Object.keys(noCounts)
const sums = counters.map((name) => `sum(${name})::float8 as ${name}`).join(", ")
const columns = [...counters, ...SketchSql.columns("processing"), ...SketchSql.columns("total")]
const during = `minute >= ${instant("$1")} and minute < ${instant("$2")}`

const statementsOf = (schema: string) => ({
  record: `
  insert into ${schema}.minute_bucket as standing (minute, pod_id, revision, queue, kind, ${columns.join(", ")})
  select ${instant("r.minute")}, $2::uuid, $3::int, r.queue, r.kind, ${columns.map((name) => `r.${name}`).join(", ")}
  from jsonb_to_recordset($1::jsonb) as r(minute float8, queue text, kind text,
    ${counters.map((name) => `${name} int`).join(", ")}, ${SketchSql.types("processing")}, ${SketchSql.types("total")})
  on conflict (minute, queue, kind, pod_id) do update
  set revision = excluded.revision, ${columns.map((name) => `${name} = excluded.${name}`).join(", ")}
  where standing.revision < excluded.revision`,

  series: `
  with bucket as materialized (
    select ${SketchSql.bucketStart("$3")} as at, *
    from ${schema}.minute_bucket
    where ${during} and ($4::text is null or queue = $4) and ($5::text is null or kind = $5)
  ), counted as (
    select at, ${sums}, sum(processing_sum) as processing_sum, max(processing_max) as processing_max,
      sum(total_sum) as total_sum, max(total_max) as total_max
    from bucket group by at
  ), processing as (${SketchSql.merged("processing", "bucket", "at")}
  ), total as (${SketchSql.merged("total", "bucket", "at")}
  )
  select * from counted left join processing using (at) left join total using (at)`,

  totals: `
  select queue, kind, ${sums} from ${schema}.minute_bucket where ${during}
  group by queue, kind order by sum(dead) desc, sum(started) desc, queue, kind limit ${mostTotals}`
})

interface SeriesRow extends JobCounts {
  readonly at: number
  readonly processing_sum: number
  readonly processing_max: number
  readonly processing_places: ReadonlyArray<number> | null
  readonly processing_counts: ReadonlyArray<number> | null
  readonly total_sum: number
  readonly total_max: number
  readonly total_places: ReadonlyArray<number> | null
  readonly total_counts: ReadonlyArray<number> | null
}

const countsOf = (row: JobCounts): JobCounts => ({
  enqueued: row.enqueued,
  started: row.started,
  completed: row.completed,
  retried: row.retried,
  dead: row.dead,
  rescued: row.rescued
})

const pointOf = (row: SeriesRow): SeriesPoint => ({
  at: row.at,
  ...countsOf(row),
  processing: SketchSql.summary(row.processing_places, row.processing_counts, row.processing_sum, row.processing_max),
  total: SketchSql.summary(row.total_places, row.total_counts, row.total_sum, row.total_max)
})

const nothing = Histogram.of(emptySketch).summary()
const emptyPoint = (at: number): SeriesPoint => ({ at, ...noCounts, processing: nothing, total: nothing })

const recordOf = ({ processing, total, ...count }: MinuteCount) => ({
  ...count,
  ...SketchSql.fields("processing", processing),
  ...SketchSql.fields("total", total)
})

const make = Effect.gen(function* () {
  const database = yield* Database
  const { schema, sql } = database
  const statements = statementsOf(schema)
  const reading = Bounded.within(database, readLimit)

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
        const grid = yield* Grid.of(range, width)
        const rows = yield* reading(
          sql.unsafe<SeriesRow>(statements.series, [grid.from, grid.to, grid.width, queue ?? null, kind ?? null])
        )
        return Grid.fill(grid, new Map(rows.map((row) => [row.at, pointOf(row)])), emptyPoint)
      }),
    totals: ({ from, to }) =>
      Effect.map(reading(sql.unsafe<KindTotals>(statements.totals, [from, to])), (rows) =>
        rows.map((row) => ({ queue: row.queue, kind: row.kind, ...countsOf(row) }))
      ),
    purge: (olderThan) => OldRows.purge(database, "minute_bucket", "minute, queue, kind, pod_id", olderThan)
  })
})

export const layer: Layer.Layer<MinuteBuckets, never, Database> = Layer.effect(MinuteBuckets, make)

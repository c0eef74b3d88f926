import { Duration, Effect, Layer } from "effect"
import type { PodId } from "../core/Ids.js"
import { Database, within } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { instant } from "../database/SqlInstant.js"
import { named } from "../database/Statements.js"
import * as HistorySql from "./HistorySql.js"
import { bucketStart, during } from "./HistorySql.js"
import { maxPods, type PodPoint, type PodSample, PodSamples } from "./PodSamples.js"
import * as SketchBytes from "./SketchBytes.js"
import * as TimeGrid from "./TimeGrid.js"

const readLimit = Duration.seconds(10)

const columns = [
  "cpu",
  "rss_bytes",
  "event_loop_p99",
  "event_loop_max",
  "pool_busy",
  "pool_idle",
  "pool_waiting",
  ...SketchBytes.columns("statement")
]

const statementsOf = (schema: string) => ({
  record: `
  insert into ${schema}.pod_sample (minute, pod_id, ${columns.join(", ")})
  select ${instant("$2")}, $3::uuid, ${columns.map((name) => `r.${name}`).join(", ")}
  from jsonb_to_record($1::jsonb) as r(cpu float8, rss_bytes bigint, event_loop_p99 float8, event_loop_max float8,
    pool_busy int, pool_idle int, pool_waiting int, ${SketchBytes.types("statement")})
  on conflict (minute, pod_id) do update set ${columns.map((name) => `${name} = excluded.${name}`).join(", ")}`,

  series: `
  with newest as (
    select distinct pod_id from ${schema}.pod_sample where ${during("minute")} order by pod_id desc limit ${maxPods}
  )
  select pod_id, ${bucketStart("minute", "$3")} as at, avg(cpu) as cpu, max(rss_bytes)::float8 as rss_bytes,
    max(event_loop_p99) as event_loop_p99, max(event_loop_max) as event_loop_max, max(pool_busy) as pool_busy,
    max(pool_idle) as pool_idle, max(pool_waiting) as pool_waiting, ${SketchBytes.merged("statement")}
  from ${schema}.pod_sample join newest using (pod_id) where ${during("minute")}
  group by 1, 2 order by 1 desc, 2`,

  statements: `select ${SketchBytes.merged("statement")} from ${schema}.pod_sample where ${during("minute")}`
})

interface StatementColumns {
  readonly statement_sum: number | null
  readonly statement_max: number | null
  readonly statement: Uint8Array | null
}

interface SeriesRow extends StatementColumns {
  readonly pod_id: PodId
  readonly at: number
  readonly cpu: number
  readonly rss_bytes: number
  readonly event_loop_p99: number
  readonly event_loop_max: number
  readonly pool_busy: number
  readonly pool_idle: number
  readonly pool_waiting: number
}

const statementsIn = (row: StatementColumns | undefined) =>
  SketchBytes.summary(row?.statement ?? null, row?.statement_sum ?? null, row?.statement_max ?? null)

const pointOf = (row: SeriesRow): PodPoint => ({
  at: row.at,
  cpu: row.cpu,
  rssBytes: row.rss_bytes,
  eventLoop: { p99: row.event_loop_p99, max: row.event_loop_max },
  pool: { busy: row.pool_busy, idle: row.pool_idle, waiting: row.pool_waiting },
  statements: statementsIn(row)
})

const recordOf = ({ cpu, eventLoop, pool, rssBytes, statements }: PodSample) => ({
  cpu,
  rss_bytes: rssBytes,
  event_loop_p99: eventLoop.p99,
  event_loop_max: eventLoop.max,
  pool_busy: pool.busy,
  pool_idle: pool.idle,
  pool_waiting: pool.waiting,
  ...SketchBytes.fields("statement", statements)
})

const make = Effect.gen(function* () {
  const database = yield* Database
  const { schema, sql } = database
  const statements = named("sample", statementsOf(schema))
  const reading = within(database, readLimit)

  return PodSamples.of({
    record: (sample) =>
      Effect.asVoid(
        mapErrors(sql.unsafe(statements.record, [JSON.stringify(recordOf(sample)), sample.minute, sample.pod]))
      ),
    series: ({ width, ...range }) =>
      Effect.gen(function* () {
        const grid = yield* TimeGrid.of(range, width)
        const rows = yield* reading(sql.unsafe<SeriesRow>(statements.series, [grid.from, grid.to, grid.width]))
        const pods = new Map<PodId, Array<PodPoint>>()
        for (const row of rows) pods.set(row.pod_id, [...(pods.get(row.pod_id) ?? []), pointOf(row)])
        return [...pods].map(([pod, points]) => ({ pod, points }))
      }),
    statements: ({ from, to }) =>
      Effect.map(reading(sql.unsafe<StatementColumns>(statements.statements, [from, to])), ([row]) =>
        statementsIn(row)
      ),
    purge: (olderThan) =>
      HistorySql.purgeRows(
        database,
        { table: "pod_sample", key: "minute, pod_id", old: (before) => `minute < ${before}` },
        olderThan
      )
  })
})

export const layer: Layer.Layer<PodSamples, never, Database> = Layer.effect(PodSamples, make)

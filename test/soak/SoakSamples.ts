import { Effect } from "effect"
import type { Deployment } from "../faults/Deployment.js"
import type { Sample } from "./Curves.js"
import { follow, type SoakLedger } from "./SoakLedger.js"

interface Memory {
  readonly role: string
  readonly rss: number
  readonly heap: number
  readonly files?: number
}

interface Relation {
  readonly name: string
  readonly table: number
  readonly index: number
  readonly dead: number
}

const relations = `
  select relname as name, pg_table_size(relid)::float8 as table, pg_indexes_size(relid)::float8 as index,
    n_dead_tup::int as dead
  from pg_stat_user_tables where schemaname = $1`

const counts = (schema: string) => `
  select
    (select count(*)::int from pg_stat_activity
      where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()) as connections,
    (select count(*)::int from "${schema}".job where finished_at is null and status = 'pending' and run_at <= now())
      as backlog`

/** The role of the process that is never killed, whose memory is a curve. */
export const steady = "steady"

const quantile = (sorted: ReadonlyArray<number>, share: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]

const sumOf = (values: ReadonlyArray<number>) => values.reduce((sum, value) => sum + value, 0)

/** Returns an effect that takes one sample of everything that must not grow. */
export const make = (deployment: Deployment, ledger: SoakLedger, memoryFile: string) => {
  const newLines = follow(memoryFile)
  return (at: number): Effect.Effect<Sample, Error> =>
    Effect.gen(function* () {
      const memory = newLines()
        .map((line) => JSON.parse(line) as Memory)
        .findLast(({ role }) => role === steady)
      const sizes = yield* deployment.query<Relation>(relations, [deployment.schema])
      const [count] = yield* deployment.query<{ connections: number; backlog: number }>(counts(deployment.schema))
      const latencies = [...ledger.takeLatencies()].sort((one, other) => one - other)
      const [p50, p99] = [quantile(latencies, 0.5), quantile(latencies, 0.99)]
      return {
        at,
        values: {
          ...(memory === undefined ? {} : { rss: memory.rss, heap: memory.heap }),
          ...(memory?.files === undefined ? {} : { files: memory.files }),
          "table all": sumOf(sizes.map(({ table }) => table)),
          "index all": sumOf(sizes.map(({ index }) => index)),
          ...Object.fromEntries(sizes.map(({ name, table }) => [`table ${name}`, table])),
          ...Object.fromEntries(sizes.map(({ index, name }) => [`index ${name}`, index])),
          "dead rows": sumOf(sizes.map(({ dead }) => dead)),
          connections: count?.connections ?? 0,
          ...(p50 === undefined || p99 === undefined ? {} : { p50, p99 }),
          backlog: count?.backlog ?? 0
        }
      }
    })
}

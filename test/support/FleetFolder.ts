import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Redacted, type Scope } from "effect"
import pg from "pg"
import { connect, type FleetShift, type Shift } from "../../src/client/index.js"
import * as Nightshift from "./Nightshift.js"
import * as TestDatabase from "./TestDatabase.js"

/** A folder with the list of a fleet, whose cells are databases of their own. */
export const make = (names: ReadonlyArray<string>, queues: string) =>
  Effect.gen(function* () {
    const urls = (yield* Effect.replicateEffect(TestDatabase.migrated, names.length)).map((url) => Redacted.value(url))
    const cwd = yield* Nightshift.folder
    const file = join(cwd, "fleet.yaml")
    const cells = names.map((name, place) => `  ${name}: { database: "${urls[place]}" }\n`).join("")
    writeFileSync(file, `# All cells.\ncells:\n${cells}queues:\n${queues}default: ${names[0]}\n`)
    const pools = yield* Effect.forEach(urls, (connectionString) =>
      Effect.acquireRelease(
        Effect.sync(() => new pg.Pool({ connectionString, max: 2 })),
        (pool) => Effect.promise(() => pool.end())
      )
    )
    const released = <S extends { close(): Promise<void> }>(open: () => Promise<S>) =>
      Effect.acquireRelease(Effect.promise(open), (shift) => Effect.promise(() => shift.close()))
    const query = (cell: string, text: string, values: ReadonlyArray<unknown> = []) =>
      Effect.promise(async () => (await pools[names.indexOf(cell)]?.query(text, [...values]))?.rows ?? [])
    /** Opens a transaction in a cell. `awaited` ends, and `commitOnceAwaited` commits it, as soon as another statement waits for its locks. */
    const transaction = (cell: string) =>
      Effect.map(
        Effect.acquireRelease(
          Effect.promise(async () => {
            const client = new pg.Client({ connectionString: urls[names.indexOf(cell)] })
            await client.connect()
            await client.query("begin")
            return client
          }),
          (client) => Effect.promise(() => client.end())
        ),
        (client) => {
          const waits = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
          const awaited = Effect.repeat(query(cell, waits), { until: (rows) => rows.length > 0 })
          return {
            client,
            awaited,
            commitOnceAwaited: Effect.zipRight(
              awaited,
              Effect.promise(() => client.query("commit"))
            )
          }
        }
      )
    return {
      cwd,
      file,
      url: (cell: string) => urls[names.indexOf(cell)] ?? "",
      /** The list as it is now. */
      text: () => readFileSync(file, "utf8"),
      query,
      transaction,
      /** Copies the jobs of a queue to another cell, as a move does. */
      copyJobs: (from: string, to: string, queue: string) =>
        Effect.gen(function* () {
          const jobs = "select * from nightshift.job where queue = $1"
          const waits = `select d.* from nightshift.workflow_deferred d join (${jobs}) j on j.dedupe_key = d.execution`
          for (const [table, rows] of Object.entries({ job: jobs, workflow_deferred: waits })) {
            const [row] = yield* query(from, `select json_agg(r)::text as rows from (${rows}) r`, [queue])
            const copied = `json_populate_recordset(null::nightshift.${table}, $1::json)`
            yield* query(to, `insert into nightshift.${table} select * from ${copied}`, [row?.rows])
          }
        }),
      /** Ids of the jobs of a queue in a cell. */
      ids: (cell: string, queue: string) =>
        Effect.map(query(cell, "select id from nightshift.job where queue = $1 order by id", [queue]), (rows) =>
          rows.map(({ id }) => id as string)
        ),
      /** A shift of one cell. */
      cell: (cell: string): Effect.Effect<Shift, never, Scope.Scope> =>
        released(() => connect({ fleet: file, cell, pool: 2, log: false })),
      /** A shift of the fleet, with the list as it is now. */
      fleet: (): Effect.Effect<FleetShift, never, Scope.Scope> =>
        released(() => connect({ fleet: file, pool: 2, log: false })),
      /** Runs a command in this process. */
      call: (...args: ReadonlyArray<string>) => Nightshift.call(["fleet", ...args], { cwd, env: {} }),
      /** Starts it as a process. */
      start: (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
        Nightshift.start(["fleet", ...args], { cwd, env }),
      /** Runs it as a process. */
      run: (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
        Nightshift.run(["fleet", ...args], { cwd, env })
    }
  })

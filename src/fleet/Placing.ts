import * as SqlClient from "@effect/sql/SqlClient"
import type { Connection } from "@effect/sql/SqlConnection"
import { Effect, identity, Option } from "effect"
import * as CoalescingCache from "../core/CoalescingCache.js"
import { InvalidJob } from "../core/InvalidJob.js"
import { type DatabaseError, mapErrors } from "../database/DatabaseError.js"
import { address } from "../database/DatabaseUrl.js"
import { outside } from "../database/Transaction.js"
import { OuterTransactionFailed } from "../queue/JobErrors.js"
import type { NewJob } from "../queue/NewJob.js"
import type { RunStatement } from "../queue/Queue.js"
import { type Decide, decide, isRouted, type Route, Routes, routed } from "../queue/settings/Routes.js"
import { type Cells, identityQuery, on, patience } from "./Cells.js"
import { type Cell, place } from "./Fleet.js"

// Chooses the cell of a job: by its queue, after the routes of all cells, and its key. Checks that a transaction is of that cell.

type CellsService = typeof Cells.Service

/** A job whose queue is decided, and its cell. */
export interface PlacedJob {
  readonly job: NewJob
  readonly cell: Cell
}

/** Routes of all cells. A cell that does not answer has those that it had when it did. */
export interface FleetRoutes {
  /** The routes, at most a second old. */
  readonly current: Effect.Effect<Decide>
  /** The same if they need not be read again, otherwise undefined. */
  readonly cached: () => Decide | undefined
}

const freshMillis = 1_000

export const routesOf = (cells: CellsService): Effect.Effect<FleetRoutes> =>
  Effect.gen(function* () {
    const clock = yield* Effect.clock
    const known = new Map<Cell, ReadonlyArray<Route>>()
    /** Cells whose last read failed. The log names each once per outage. */
    const outdated = new Set<Cell>()
    const all = Effect.forEach(
      [...cells.fleet.cells.values()],
      (cell) =>
        // The caller's transaction is of one cell.
        outside(on(cells, cell)(Effect.flatMap(Routes, (routes) => routes.all))).pipe(
          Effect.tap((found) =>
            Effect.sync(() => {
              known.set(cell, found)
              outdated.delete(cell)
            })
          ),
          // A cell that has fallen silent does not refuse the query. Jobs of all cells wait for it.
          known.has(cell) ? (read) => Effect.timeout(Effect.disconnect(read), patience) : identity,
          Effect.tapError(({ message }) => {
            if (!known.has(cell) || outdated.has(cell)) return Effect.void
            outdated.add(cell)
            return Effect.logWarning(
              `The routes of cell ${cell.name} cannot be read: ${message}. Jobs without a queue follow those that were read last.`
            )
          }),
          // Without the routes of a cell that is down, its jobs would be stored in the default cell, where no process runs them.
          Effect.orElseSucceed(() => known.get(cell) ?? [])
        ),
      { concurrency: "unbounded" }
    )
    const read = yield* CoalescingCache.refreshed(
      Effect.map(all, (found) => decide(found.flat())),
      freshMillis
    )
    let last: CoalescingCache.Taken<Decide> | undefined
    return {
      current: Effect.map(read, (taken) => {
        last = taken
        return taken.value
      }),
      cached: () =>
        last !== undefined && clock.unsafeCurrentTimeMillis() - last.at < freshMillis ? last.value : undefined
    }
  })

/** Places jobs. Only jobs without a queue of their own need the routes. */
export const placeAll = (
  cells: CellsService,
  routes: FleetRoutes,
  jobs: ReadonlyArray<NewJob>
): Effect.Effect<ReadonlyArray<PlacedJob>> => {
  const placed = (job: NewJob): PlacedJob => ({ job, cell: place(cells.fleet, job) })
  return jobs.some(isRouted)
    ? Effect.map(routes.current, (queueOf) => jobs.map((job) => placed(isRouted(job) ? routed(job, queueOf) : job)))
    : Effect.succeed(jobs.map(placed))
}

const apart = (first: PlacedJob, other: PlacedJob, index: number, jobs: number) =>
  new InvalidJob({
    index,
    jobs,
    field: other.job.queue === first.job.queue ? "key" : "queue",
    reason: `belongs to cell ${other.cell.name}, but the first job to cell ${first.cell.name}. All or none holds within a cell: store them in separate calls, or allow several cells (acrossCells)`
  })

/** The only cell of the jobs. Fails if there are several. */
export const oneCell = (placed: ReadonlyArray<PlacedJob>, main: Cell): Effect.Effect<Cell, InvalidJob> => {
  const [first] = placed
  if (first === undefined) return Effect.succeed(main)
  const other = placed.findIndex(({ cell }) => cell !== first.cell)
  const found = placed[other]
  return found === undefined ? Effect.succeed(first.cell) : apart(first, found, other, placed.length)
}

/** Databases of connections and transactions that were asked. */
const known = new WeakMap<object, string>()

/** What a transaction stores. */
type Subject = "job" | "event"

const wrongCell = (cells: CellsService, cell: Cell, found: string, subject: Subject) => {
  const other = [...cells.fleet.cells.values()].find((each) => cells.opened(each)?.identity === found)
  const is = other === undefined ? "a database that is no cell of the fleet" : `cell ${other.name}`
  return `the transaction is of ${is}, but the ${subject} belongs to cell ${cell.name} (${address(cell.database)}). Begin the transaction there, or ${subject === "job" ? "enqueue" : "publish"} without it`
}

/** What is wrong if the surrounding transaction, if there is one, is of another database than the cell's. */
export const faultOfTransaction = (
  cells: CellsService,
  cell: Cell,
  subject: Subject
): Effect.Effect<string | undefined, DatabaseError> =>
  Effect.flatMap(Effect.serviceOption(SqlClient.TransactionConnection), (outer) =>
    Option.isNone(outer)
      ? Effect.succeed(undefined)
      : Effect.gen(function* () {
          const { identity: expected } = yield* cells.open(cell)
          const found = yield* ofConnection(outer.value[0])
          return found === expected ? undefined : wrongCell(cells, cell, found, subject)
        })
  )

/** Fails if the surrounding transaction is not of the cell of a job. */
export const checkTransaction = (cells: CellsService, cell: Cell): Effect.Effect<void, InvalidJob | DatabaseError> =>
  Effect.flatMap(faultOfTransaction(cells, cell, "job"), (fault) =>
    fault === undefined
      ? Effect.void
      : new InvalidJob({ index: 0, field: "queue", reason: `is in another cell: ${fault}` })
  )

const ofConnection = (connection: Connection): Effect.Effect<string, DatabaseError> => {
  const asked = known.get(connection)
  if (asked !== undefined) return Effect.succeed(asked)
  return Effect.map(mapErrors(connection.executeValues(identityQuery, [])), ([row]) => {
    const found = String(row?.[0])
    known.set(connection, found)
    return found
  })
}

/** The same for a transaction of another library. Asked once per transaction object. */
export const checkOuter = (
  cells: CellsService,
  cell: Cell,
  run: RunStatement,
  subject: Subject = "job"
): Effect.Effect<void, OuterTransactionFailed | DatabaseError> =>
  Effect.gen(function* () {
    const { identity: expected } = yield* cells.open(cell)
    const asked = known.get(run)
    const found =
      asked ??
      (yield* Effect.tryPromise({
        // The parameter is unused, but every statement has one.
        try: () =>
          run({
            text: `${identityQuery} where $1::text is not null`,
            within: () => `${identityQuery} where $1::text is not null`,
            parameter: ""
          }),
        catch: (error) => new OuterTransactionFailed({ error })
      }).pipe(Effect.map(([row]) => String(row?.cluster))))
    known.set(run, found)
    if (found !== expected)
      return yield* new OuterTransactionFailed({ error: new Error(wrongCell(cells, cell, found, subject)) })
  })

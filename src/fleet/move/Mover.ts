import { Clock, Effect } from "effect"
import type { JobId, Lease } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import { DatabaseConflict, type DatabaseError, isContention, mapErrors } from "../../database/DatabaseError.js"
import { outside } from "../../database/Transaction.js"
import * as SqlArrays from "../../queue/SqlArrays.js"
import * as QueueSql from "../../queue/settings/QueueSql.js"
import type { Cell } from "../Fleet.js"
import { type Moved, MoveMismatch, none, plus } from "./Moved.js"
import * as MoveSql from "./MoveSql.js"

// Moves jobs between two cells in small steps, each of which can be repeated. A job is held in the cell that it leaves, then
// copied, still held, to the other cell, then deleted in the first, and released in the second only if the first does not have
// it. While both have it, the first one counts: an interrupted copy is replaced, unless it was changed later. At every moment
// one cell at most can start it.

/** A cell and its database. */
export interface Side {
  readonly cell: Cell
  readonly database: typeof Database.Service
}

/** The jobs of a queue on their way from one cell to another. */
export interface Way {
  readonly queue: string
  readonly from: string
  readonly to: string
}

/** The queue of jobs that move. It is no valid name of a queue, so that no process can serve it. */
export const heldQueue = ({ from, queue, to }: Way): string => `${queue}>${from}>${to}`

/** The way of jobs that move, from the name of their queue. */
export const wayOf = (name: string): Way | undefined => {
  const [queue = "", from, to, ...rest] = name.split(">")
  return from === undefined || to === undefined || rest.length > 0 ? undefined : { queue, from, to }
}

/** What decides the cell of a stored job. */
export interface PlacedRow {
  readonly id: JobId
  readonly key: string | null
  readonly dedupe_key: string | null
  /** Whether it belongs to other rows of the cell, so that it cannot move without them. */
  readonly linked: boolean
}

interface WaitingRow extends PlacedRow {
  readonly priority: number
  readonly run_at: string
}

export interface RunningRow extends PlacedRow {
  readonly lease: Lease
  readonly kind: string
  readonly started_at: number
}

/** Unfinished jobs of another queue that refer to jobs of a queue, or jobs of the queue that cannot move. */
export interface Tie {
  readonly tie: "child" | "parent" | "batch" | "endpoint"
  readonly queue: string
  readonly other: string
  readonly jobs: number
}

const isKeyTaken = (error: unknown) => error instanceof DatabaseConflict && error.constraint === "job_dedupe"

/** Jobs, and bytes of them, that one transaction copies. */
const step = { jobs: 500, bytes: 8 * 1024 * 1024 }
const page = 5_000

interface Locked {
  readonly id: JobId
  readonly dedupe_key: string | null
  readonly updated_at: string
  readonly execution: boolean
  readonly unfinished: boolean
  /** Whether it asks its cell for a permit or waits for an event there. */
  readonly asks: boolean
}

interface Sendable {
  readonly executions: string
  readonly names: string
  readonly ids: string
  readonly exits: string
}

/** Statements of one cell. */
const on = ({ database }: Side) => {
  const sql = MoveSql.make(database.schema)
  const rows = <A extends object>(text: string, values: ReadonlyArray<unknown> = []) =>
    mapErrors(database.sql.unsafe<A>(text, values))
  const first = <A extends object>(text: string, values: ReadonlyArray<unknown> = []) =>
    Effect.map(rows<A>(text, values), ([row]) => row as A)
  /** In its own transaction, also if the other cell has one open. Contention repeats it: it changes nothing unless it commits. */
  const durably = <A, E>(effect: Effect.Effect<A, E>) =>
    outside(database.transaction(Effect.zipRight(rows(sql.durably), effect))).pipe(
      Effect.retry({ times: 5, while: isContention })
    ) as Effect.Effect<A, E | DatabaseError>
  return { sql, rows, first, durably, schema: database.schema }
}

type Statements = ReturnType<typeof on>

const uuids = SqlArrays.ofPlain
const texts = SqlArrays.ofTexts

/** Reads of one cell. */
export const reads = (side: Side) => {
  const { rows, first, sql } = on(side)
  return {
    /** Calls `use` with pages of the waiting jobs of a queue. */
    eachWaiting: <E>(queue: string, use: (jobs: ReadonlyArray<PlacedRow>) => Effect.Effect<void, E>) =>
      Effect.gen(function* () {
        let after: ReadonlyArray<unknown> = [null, null, null]
        for (;;) {
          const jobs: ReadonlyArray<WaitingRow> = yield* rows<WaitingRow>(sql.waiting, [queue, ...after, page])
          if (jobs.length > 0) yield* use(jobs)
          const last = jobs.at(-1)
          if (last === undefined || jobs.length < page) return
          after = [last.priority, last.run_at, last.id]
        }
      }),
    running: (queue: string) => rows<RunningRow>(sql.running, [queue]),
    finished: (queue: string) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => rows<PlacedRow>(sql.finished, [queue, now])),
    companions: (queues: ReadonlyArray<string>) =>
      Effect.map(rows<{ id: JobId }>(sql.companions, [texts(queues)]), (found) => found.map(({ id }) => id)),
    ties: (queues: ReadonlyArray<string>) => rows<Tie>(sql.ties, [texts(queues)]),
    count: (queue: string) => Effect.map(first<{ jobs: number }>(sql.count, [queue]), ({ jobs }) => jobs),
    subscribers: (queue: string) => rows<{ event: string; kind: string }>(sql.subscribers, [queue]),
    schedules: (queue: string) => rows<{ name: string; origin: string }>(sql.schedules, [queue]),
    /** Ways of the jobs of interrupted moves that are here. */
    ways: (pending: ReadonlyArray<string>) =>
      Effect.gen(function* () {
        const cancelled = yield* rows<{ queue: string }>(sql.cancelledQueues)
        const names = new Set([...pending, ...cancelled.map(({ queue }) => queue)])
        return [...names].flatMap((name) => wayOf(name) ?? [])
      })
  }
}

/** Runs an effect while no claim of the queue does: one that has chosen jobs would take them although they have left the queue. */
export const withoutClaims = <A, E>(side: Side, queue: string, effect: Effect.Effect<A, E>) => {
  const { durably, rows, schema } = on(side)
  return durably(Effect.zipRight(rows(QueueSql.make(schema).exclusiveLock, [queue]), effect))
}

/** Takes waiting jobs out of their queue. */
export const hold = (
  side: Side,
  queue: string,
  jobs: ReadonlyArray<{ readonly id: JobId; readonly into: string }>
): Effect.Effect<void, DatabaseError> => {
  const { rows, sql } = on(side)
  const values = [uuids(jobs.map(({ id }) => id)), texts(jobs.map(({ into }) => into)), queue]
  return Effect.flatMap(Clock.currentTimeMillis, (now) => rows(sql.hold, [...values, now]))
}

/**
 * Before more jobs are held: puts those that are held before them. Inside the transaction that holds, and first in the cells where
 * jobs have arrived: these come before the others of their key, whatever interrupts this.
 */
export const precede = (from: Side, to: ReadonlyArray<Side>, queue: string) =>
  Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const held = texts(to.map(({ cell }) => heldQueue({ queue, from: from.cell.name, to: cell.name })))
    for (const side of to) {
      const { durably, rows, sql } = on(side)
      yield* durably(rows(sql.precede, [held, now]))
    }
    const { rows, sql } = on(from)
    yield* rows(sql.precede, [held, now])
  })

/** Locks those of the jobs that are still held, or finished, for the rest of the transaction. */
const lockJobs = ({ rows, sql }: Statements, ids: string, held: string) =>
  Effect.gen(function* () {
    yield* rows(sql.lockLinks, [ids])
    yield* rows(sql.lockWaits, [ids])
    return yield* rows<Locked>(sql.lock, [ids, held])
  })

const send = (side: Side, found: Sendable) =>
  Effect.gen(function* () {
    if (found.executions === "[]") return 0
    const { first, sql } = on(side)
    const now = yield* Clock.currentTimeMillis
    const values = [found.executions, found.names, found.ids, found.exits, now]
    return (yield* first<{ sent: number }>(sql.send, values)).sent
  })

/** Sends those signals among dumped waits that the cell does not have. */
const sendUnknown = (side: Side, waits: string) => {
  const { first, sql } = on(side)
  return Effect.flatMap(first<Sendable>(sql.unknownSignals, [waits]), (found) => send(side, found))
}

/** Copies jobs that `locked` lists, with all that belongs to them. */
const copy = (from: Side, to: Side, held: string, jobs: ReadonlyArray<Locked>, taken: ReadonlySet<string | null>) =>
  Effect.gen(function* () {
    const source = on(from)
    const target = on(to)
    const ids = uuids(jobs.map(({ id }) => id))
    const executions = jobs.filter(({ execution }) => execution).map(({ dedupe_key }) => dedupe_key ?? "")
    const dump = yield* source.rows<{ name: string; rows: string | null }>(source.sql.dump, [ids, texts(executions)])
    const now = yield* Clock.currentTimeMillis
    const stored = yield* target.durably(
      Effect.gen(function* () {
        const changed = texts(jobs.map(({ updated_at }) => updated_at))
        const copies = yield* target.rows<{ id: JobId; run_at: string | null }>(target.sql.dropCopies, [
          ids,
          held,
          changed
        ])
        const due = new Map(copies.map(({ id, run_at }) => [id, run_at ?? undefined]))
        const changes = jobs.flatMap(({ asks, dedupe_key, id }) => {
          const isTaken = dedupe_key !== null && taken.has(dedupe_key)
          // Permits and events belong to a cell: the execution runs to ask the new one.
          const runAt = asks ? new Date(now).toISOString() : due.get(id)
          if (!isTaken && runAt === undefined) return []
          const changed = isTaken ? { dedupe_key: null, dedupe_scope: null, dedupe_until: null } : {}
          return [{ id, due: runAt ?? null, changed }]
        })
        const early = yield* target.first<Sendable>(target.sql.takeEarly, [texts(executions)])
        let count = 0
        for (const { name, rows } of dump) {
          if (rows === null) continue
          if (name === "job")
            count = (yield* target.first<{ jobs: number }>(target.sql.storeJobs, [rows, JSON.stringify(changes), held]))
              .jobs
          else if (name !== "workflow_deferred") yield* target.rows(target.sql.store[name] ?? "", [rows])
          else {
            yield* target.rows(target.sql.reopenSent, [rows])
            yield* target.rows(target.sql.storeWaits, [rows])
            yield* sendUnknown(to, rows)
          }
        }
        yield* send(to, early)
        return count
      })
    )
    if (stored !== jobs.length)
      return yield* new MoveMismatch({ from: from.cell.name, to: to.cell.name, expected: jobs.length, found: stored })
  })

/**
 * Moves jobs to another cell. In one transaction of the first cell they are locked, copied in a transaction of the other
 * cell, and deleted. `way` is that of jobs that are held.
 */
export const transfer = (from: Side, to: Side, way: Way, jobs: ReadonlyArray<JobId>) => {
  const source = on(from)
  const target = on(to)
  const held = heldQueue(way)
  return source.durably(
    Effect.gen(function* () {
      const ids = uuids(jobs)
      const locked = yield* lockJobs(source, ids, held)
      const keys = locked.flatMap(({ dedupe_key }) => dedupe_key ?? [])
      const copied = Effect.gen(function* () {
        const conflicts = yield* outside(
          target.rows<{ id: JobId | null; key: string | null }>(target.sql.conflicts, [ids, texts(keys), held])
        )
        const known = new Set(conflicts.flatMap(({ id }) => id ?? []))
        const taken = new Set(conflicts.flatMap(({ key }) => key ?? []))
        const isTaken = ({ dedupe_key }: Locked) => dedupe_key !== null && taken.has(dedupe_key)
        const fresh = locked.filter(({ id }) => !known.has(id))
        // An execution is found by its dedupe key, so it cannot lose it.
        const moving = fresh.filter((job) => !(job.execution && isTaken(job)))
        const refused = fresh.filter((job) => job.execution && isTaken(job))
        if (moving.length > 0) yield* copy(from, to, held, moving, taken)
        return { known, moving, refused, withoutKey: moving.filter(isTaken).length }
      })
      // A job that has just taken a dedupe key there is one of the conflicts of the next try.
      const { known, moving, refused, withoutKey } = yield* Effect.retry(copied, { times: 5, while: isKeyTaken })
      const gone = uuids(locked.filter((job) => !refused.includes(job)).map(({ id }) => id))
      yield* source.rows(source.sql.remove, [gone])
      if (refused.length > 0)
        yield* source.rows(source.sql.unhold, [uuids(refused.map(({ id }) => id)), held, way.queue])
      return {
        moved: moving.length,
        known: known.size,
        withoutKey,
        refused: refused.filter(({ unfinished }) => unfinished).map(({ dedupe_key }) => dedupe_key ?? "")
      } satisfies Moved
    })
  )
}

/** Moves finished jobs, then all jobs that are held. `onStep` is called with the number of each step. */
export const transferAll = <E>(
  from: Side,
  to: Side,
  way: Way,
  finished: ReadonlyArray<JobId>,
  onStep: (count: number) => Effect.Effect<void, E>
) =>
  Effect.gen(function* () {
    const { rows, sql } = on(from)
    let sum = none
    const move = (ids: ReadonlyArray<JobId>) =>
      Effect.gen(function* () {
        sum = plus(sum, yield* transfer(from, to, way, ids))
        yield* onStep(ids.length)
      })
    for (let at = 0; at < finished.length; at += step.jobs) yield* move(finished.slice(at, at + step.jobs))
    for (;;) {
      const next = yield* rows<{ id: JobId }>(sql.next, [heldQueue(way), step.jobs, step.bytes])
      if (next.length === 0) return sum
      yield* move(next.map(({ id }) => id))
    }
  })

/** Puts jobs that have arrived into their queue, unless the cell that they left still has them. Returns how many. */
export const release = (from: Side, to: Side, way: Way) =>
  Effect.gen(function* () {
    const source = on(from)
    const { durably, first, rows, sql } = on(to)
    const held = heldQueue(way)
    let count = 0
    for (;;) {
      const next = yield* rows<{ id: JobId }>(sql.next, [held, step.jobs, Number.MAX_SAFE_INTEGER])
      const left = yield* source.rows<{ id: JobId }>(source.sql.present, [uuids(next.map(({ id }) => id))])
      const gone = next.filter(({ id }) => left.every((other) => other.id !== id)).map(({ id }) => id)
      if (gone.length === 0) return count
      const now = yield* Clock.currentTimeMillis
      const values = [uuids(gone), held, way.queue, now]
      count += (yield* durably(first<{ jobs: number }>(sql.release, values))).jobs
    }
  })

/** Undoes an unfinished move: jobs that are still in the first cell return to their queue there. */
export const back = (from: Side, to: Side, way: Way) =>
  Effect.gen(function* () {
    const source = on(from)
    const target = on(to)
    const held = heldQueue(way)
    for (;;) {
      const next = yield* source.rows<{ id: JobId }>(source.sql.next, [held, step.jobs, Number.MAX_SAFE_INTEGER])
      if (next.length === 0) return
      yield* source.durably(
        Effect.gen(function* () {
          // Another command may be moving them: without the locks, this one would delete copies whose jobs it has deleted here.
          const locked = yield* lockJobs(source, uuids(next.map(({ id }) => id)), held)
          const ids = uuids(locked.map(({ id }) => id))
          const { rows } = yield* outside(target.first<{ rows: string | null }>(target.sql.copiedWaits, [ids, held]))
          // Committed before the copies are deleted, in the next round.
          if (rows !== null && (yield* sendUnknown(from, rows)) > 0) return
          const deleted = target.first<{ same: boolean }>(target.sql.removeCopies, [ids, held, rows])
          // The copies first: afterwards only one cell has these jobs.
          const { same } = yield* target.durably(Effect.zipRight(lockJobs(target, ids, held), deleted))
          if (same) yield* source.rows(source.sql.unhold, [ids, held, way.queue])
        })
      )
    }
  })

/** The steps of batches, whose rows must not be in a cell without their jobs: the leader would close them. */
export const batches = (from: Side, to: Side) => {
  const source = on(from)
  const target = on(to)
  const moving = `${from.cell.name}>${to.cell.name}`
  return {
    hold: (held: ReadonlyArray<string>) => source.durably(source.rows(source.sql.holdBatches, [texts(held), moving])),
    /** Those whose jobs have all moved. */
    move: Effect.gen(function* () {
      const { ids, rows } = yield* source.first<{ ids: ReadonlyArray<JobId>; rows: string | null }>(
        source.sql.dumpBatches,
        [moving]
      )
      if (rows === null) return
      yield* target.durably(target.rows(target.sql.storeBatches, [rows]))
      yield* source.durably(source.rows(source.sql.dropBatches, [uuids(ids)]))
    }),
    release: target.durably(target.rows(target.sql.releaseBatches, [moving, true])),
    /** Those whose jobs have returned. */
    back: source.durably(source.rows(source.sql.releaseBatches, [moving, false]))
  }
}

/** Sends signals that came to a cell after their executions had left it. Returns how many. */
export const sendStray = (from: Side, to: Side) =>
  Effect.gen(function* () {
    const source = on(from)
    const target = on(to)
    const left = yield* source.rows<{ execution: string }>(source.sql.strayExecutions)
    const names = left.map(({ execution }) => execution)
    const here = yield* target.rows<{ execution: string }>(target.sql.executionsHere, [texts(names)])
    if (here.length === 0) return 0
    return yield* source.durably(
      Effect.gen(function* () {
        const values = [texts(here.map(({ execution }) => execution))]
        const found = yield* source.first<Sendable>(source.sql.takeStray, values)
        return yield* target.durably(send(to, found))
      })
    )
  })

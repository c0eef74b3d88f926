import { Effect } from "effect"
import { type JobId, zeroId } from "../../core/Ids.js"
import type { Status } from "../../core/StoredJob.js"
import type { Database } from "../../database/Database.js"
import { DatabaseConflict, type DatabaseError, DatabaseUnavailable, mapErrors } from "../../database/DatabaseError.js"
import { fragments } from "../../database/SqlInstant.js"
import * as SqlArrays from "../SqlArrays.js"
import { conditions } from "../search/JobConditions.js"
import * as CountedEnds from "../workflow/CountedEnds.js"
import { isWhole } from "../workflow/RetrySql.js"
import { filterOf, type OperationRow, rehearsalOf } from "./OperationRow.js"
import { isFor } from "./OperationScope.js"
import { actionStatement } from "./OperationSql.js"
import { type Action, batchLimits } from "./Operations.js"
import * as Rehearsal from "./Rehearsal.js"
import * as RestorePg from "./RestorePg.js"

/** Lock wait of a batch: for all of its jobs together, and for each part of them, or each job, when they run apart. */
const lockTimeouts = { all: "1s", each: "20ms" }

/** Whether to wait for locked jobs or skip them, and the lock timeout. */
interface Wait {
  readonly forJobs: boolean
  readonly atMost: string
}

/** The jobs of one batch, and the id up to which it covers the table. */
interface Chosen {
  readonly ids: ReadonlyArray<JobId>
  readonly reached: string
  readonly isLast: boolean
}

export interface BatchReport {
  readonly done: number
  /** The jobs that were changed, without those that an undo restored. */
  readonly changed: ReadonlyArray<JobId>
  readonly failed: number
  readonly skipped: Readonly<Record<string, number>>
  /** Queues that have new pending jobs. */
  readonly woken: ReadonlySet<string>
  /** Running jobs whose cancellation was requested. */
  readonly stopped: ReadonlyArray<JobId>
  /** Jobs that are dead because they were cancelled. */
  readonly cancelled: ReadonlyArray<{ readonly queue: string; readonly kind: string }>
  readonly reached: string
  readonly isLast: boolean
}

/** An action, and the act id under which the previous state of the jobs is saved; null if it is not saved. */
interface Acting {
  readonly action: Action
  readonly act: string | null
}

interface JobResult {
  readonly id: JobId
  readonly changed: boolean
  readonly queue: string | null
  readonly status: Status | null
  readonly kind?: string
  readonly isExecution?: boolean
  /** Whether the job is an execution or a child of one. */
  readonly linked?: boolean
}

/** What a batch did to its jobs. */
interface Performed {
  readonly results: ReadonlyArray<JobResult>
  /** Jobs without a result, which another transaction may have locked. */
  readonly held: ReadonlyArray<JobId>
  /** Queues of executions that woke up, and of children that were changed. */
  readonly woken: ReadonlyArray<string>
  /** Children that were cancelled. */
  readonly below: ReadonlyArray<CountedEnds.CancelledBelow>
}

const nothing: Performed = { results: [], held: [], woken: [], below: [] }

const isTaken = (error: DatabaseError) => error instanceof DatabaseConflict

const isHeldUp = (error: DatabaseError) =>
  error instanceof DatabaseUnavailable && ["55P03", "40P01"].includes(error.sqlState ?? "")

const isRefused = (error: DatabaseError) => isTaken(error) || isHeldUp(error)

const tally = (names: ReadonlyArray<string>) => {
  const counts: Record<string, number> = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
}

/** Maximum number of jobs of the next batch: the first batches of a rehearsal have only its jobs. */
const sizeOf = (operation: OperationRow) => {
  const rehearsal = rehearsalOf(operation)
  return (rehearsal === undefined ? 0 : Rehearsal.missing(rehearsal)) || batchLimits.jobs
}

/** The jobs of a batch from a list of all jobs of the operation. */
const chosenOf =
  (operation: OperationRow) =>
  (rows: ReadonlyArray<{ readonly id: JobId }>): Chosen => ({
    ids: rows.map(({ id }) => id),
    reached: rows.at(-1)?.id ?? operation.last_id,
    isLast: rows.length < sizeOf(operation)
  })

/** Runs one batch of an operation, in the transaction that holds the operation's row. */
export const make = (database: typeof Database.Service) => {
  const { schema, sql, transaction } = database
  const jobs = sql(`${schema}.job`)
  const operations = sql(`${schema}.operation`)
  const undos = sql(`${schema}.job_undo`)
  const counted = CountedEnds.make(database)
  const restoring = RestorePg.make(database, counted)

  const chooseNamed = (operation: OperationRow) =>
    Effect.map(
      mapErrors(sql<{ id: JobId }>`
        select named.id from ${operations} o cross join unnest(o.ids) as named(id)
        where o.id = ${operation.id} and named.id > ${operation.reached ?? zeroId}
        order by named.id limit ${sizeOf(operation)}`),
      chosenOf(operation)
    )

  /** Reads a bounded number of jobs per batch even if few of them match; the next batch continues from there. */
  const chooseFiltered = (operation: OperationRow, now: number) =>
    Effect.gen(function* () {
      const from = operation.reached ?? zeroId
      const [edge] = yield* mapErrors(sql<{ id: string }>`
        select id from ${jobs} where id > ${from} and id <= ${operation.last_id}
        order by id offset ${batchLimits.looked - 1} limit 1`)
      const to = edge?.id ?? operation.last_id
      const rows = yield* mapErrors(sql<{ id: JobId }>`
        select j.id from ${jobs} j
        where j.id > ${from} and j.id <= ${to}
          and j.created_at <= ${fragments(sql).instant(operation.created_at)}
          and ${sql.and(conditions(database, filterOf(operation) ?? {}, now))}
        order by j.id limit ${sizeOf(operation)}`)
      const isFull = rows.length === sizeOf(operation)
      return {
        ids: rows.map(({ id }) => id),
        reached: isFull ? (rows.at(-1)?.id ?? to) : to,
        isLast: !isFull && edge === undefined
      } satisfies Chosen
    })

  /** The lock timeout also covers dedupe keys that another transaction is taking. */
  const perform = ({ action, act }: Acting, ids: ReadonlyArray<JobId>, now: number, wait: Wait) => {
    const named = SqlArrays.ofPlain(ids)
    const parameters = [named, now, act]
    return transaction(
      Effect.zipRight(
        mapErrors(sql`select set_config('lock_timeout', ${wait.atMost}, true)`),
        mapErrors(sql.unsafe<JobResult>(actionStatement(schema, action, wait.forJobs), parameters))
      )
    )
  }

  /**
   * Another transaction took a dedupe key between the check and the write. Only running the jobs one by one finds the
   * job in conflict.
   */
  const oneByOne = (action: Acting, ids: ReadonlyArray<JobId>, now: number) =>
    Effect.map(
      Effect.forEach(ids, (id) =>
        perform(action, [id], now, { forJobs: false, atMost: lockTimeouts.each }).pipe(
          Effect.catchIf(isTaken, () => Effect.succeed([{ id, changed: false, queue: null, status: null }])),
          Effect.catchIf(isHeldUp, () => Effect.succeed<ReadonlyArray<JobResult>>([]))
        )
      ),
      (results): ReadonlyArray<JobResult> => results.flat()
    )

  const performFree = (action: Acting, ids: ReadonlyArray<JobId>, now: number, atMost: string) =>
    perform(action, ids, now, { forJobs: false, atMost }).pipe(
      Effect.catchIf(isRefused, () => oneByOne(action, ids, now))
    )

  /** Retries jobs that were locked, with a short wait. */
  const performHeld = (action: Acting, ids: ReadonlyArray<JobId>, now: number, atMost: string) =>
    perform(action, ids, now, { forJobs: true, atMost }).pipe(
      Effect.catchIf(isRefused, () => Effect.succeed<ReadonlyArray<JobResult>>([]))
    )

  const statusesOf = (ids: ReadonlyArray<JobId>) =>
    ids.length === 0
      ? Effect.succeed(new Map<JobId, Status | "erased">())
      : Effect.map(
          mapErrors(sql<{ id: JobId; status: Status | "erased" }>`
        select id, case when ${sql.literal(isWhole("job"))} then status else 'erased' end as status from ${jobs} where id = any(${ids}::uuid[])`),
          (rows) => new Map(rows.map(({ id, status }) => [id, status]))
        )

  const chooseKept = (operation: OperationRow) =>
    Effect.map(
      mapErrors(sql<{ id: JobId }>`
        select job_id as id from ${undos}
        where act = ${operation.undoes} and not below and job_id > ${operation.reached ?? zeroId}
        order by job_id limit ${sizeOf(operation)}`),
      chosenOf(operation)
    )

  const restore = (operation: OperationRow, ids: ReadonlyArray<JobId>, now: number) =>
    transaction(
      Effect.zipRight(
        mapErrors(sql`select set_config('lock_timeout', ${lockTimeouts.all}, true)`),
        restoring(operation.undoes ?? operation.id, ids, now)
      )
    )

  /** Restores jobs that have not changed since the operation; one by one if another job holds a dedupe key. */
  const undo = (operation: OperationRow, now: number): Effect.Effect<BatchReport, DatabaseError> =>
    Effect.gen(function* () {
      const { ids, isLast, reached } = yield* chooseKept(operation)
      const parts =
        ids.length === 0
          ? []
          : yield* restore(operation, ids, now).pipe(
              Effect.map((all) => [all]),
              Effect.catchIf(isRefused, () =>
                Effect.forEach(ids, (id) =>
                  restore(operation, [id], now).pipe(
                    Effect.catchIf(isRefused, () => Effect.succeed<RestorePg.Restored>({ rows: [], woken: [] }))
                  )
                )
              )
            )
      const restored = parts.flatMap(({ rows }) => rows)
      const isRestored = new Set(restored.map(({ id }) => id))
      const skipped = ids.filter((id) => !isRestored.has(id))
      // Executions that were restored earlier wait for these jobs, some of which stay deleted.
      const notAwaited = yield* counted.count(skipped, now)
      return {
        done: restored.length,
        changed: [],
        failed: 0,
        skipped: skipped.length === 0 ? {} : { changed: skipped.length },
        woken: new Set([
          ...restored.flatMap(({ queue, status }) => (status === "pending" ? [queue] : [])),
          ...parts.flatMap(({ woken }) => woken),
          ...notAwaited
        ]),
        stopped: [],
        cancelled: [],
        reached,
        isLast
      }
    })

  /**
   * Effects of an action on linked jobs: cancels or requeues children with their parent, and wakes the executions that
   * wait for cancelled or deleted jobs. Returns the cancelled children.
   */
  const follow = ({ act, action }: Acting, results: ReadonlyArray<JobResult>, now: number) =>
    Effect.gen(function* () {
      const linked = results.filter(({ changed, linked }) => changed && linked)
      if (linked.length === 0 || action === "run-now") return { woken: [], below: [] }
      const executions = linked.filter(({ isExecution }) => isExecution).map(({ id }) => id)
      if (action === "requeue") {
        const requeued = yield* counted.requeueBelow(executions, now, act)
        return { woken: requeued.map(({ queue }) => queue), below: [] }
      }
      const below = action === "cancel" ? yield* counted.cancelBelow(executions, now, act) : []
      const ended = [...linked.map(({ id }) => id), ...below.map(({ id }) => id)]
      const woken = yield* counted.count(ended, now)
      return { woken: [...below.map(({ queue }) => queue), ...woken], below }
    })

  const lockTrees = (action: Action, ids: ReadonlyArray<JobId>, atMost: string) =>
    action === "run-now"
      ? Effect.void
      : Effect.zipRight(
          mapErrors(sql`select set_config('lock_timeout', ${atMost}, true)`),
          counted.lock(action === "requeue" ? "requeue" : "end", ids)
        )

  const withoutResult = (ids: ReadonlyArray<JobId>, results: ReadonlyArray<JobResult>) => {
    const found = new Set(results.map(({ id }) => id))
    return ids.filter((id) => !found.has(id))
  }

  const together = (acting: Acting, ids: ReadonlyArray<JobId>, now: number, atMost: string) =>
    transaction(
      Effect.gen(function* () {
        yield* lockTrees(acting.action, ids, atMost)
        const free = yield* performFree(acting, ids, now, atMost)
        const others = withoutResult(ids, free)
        const statuses = yield* statusesOf(others)
        const held = others.filter((id) => {
          const status = statuses.get(id)
          return status !== undefined && status !== "erased" && isFor(acting.action, status)
        })
        const results = held.length === 0 ? free : [...free, ...(yield* performHeld(acting, held, now, atMost))]
        const performed: Performed = { results, held, ...(yield* follow(acting, results, now)) }
        return performed
      })
    )

  const alone = (acting: Acting, id: JobId, now: number) =>
    transaction(
      Effect.gen(function* () {
        yield* lockTrees(acting.action, [id], lockTimeouts.each)
        const results = yield* perform(acting, [id], now, { forJobs: true, atMost: lockTimeouts.each })
        const performed: Performed = { results, held: [], ...(yield* follow(acting, results, now)) }
        return performed
      })
    ).pipe(
      Effect.catchIf(isTaken, () =>
        Effect.succeed<Performed>({ ...nothing, results: [{ id, changed: false, queue: null, status: null }] })
      ),
      Effect.catchIf(isHeldUp, () => Effect.succeed<Performed>({ ...nothing, held: [id] }))
    )

  /**
   * Another transaction locks a parent or child of one of the jobs. Halving finds it with few statements. Newest first, as in
   * one statement: children precede their parents, and of several jobs with one key the newest gets it.
   */
  const inHalves = (
    acting: Acting,
    ids: ReadonlyArray<JobId>,
    now: number
  ): Effect.Effect<Performed, DatabaseError> => {
    const [only] = ids
    if (only !== undefined && ids.length === 1) return alone(acting, only, now)
    const half = ids.length >> 1
    const part = (some: ReadonlyArray<JobId>) =>
      some.length === 1
        ? inHalves(acting, some, now)
        : together(acting, some, now, lockTimeouts.each).pipe(
            Effect.catchIf(isRefused, () => inHalves(acting, some, now))
          )
    return Effect.map(
      Effect.forEach([ids.slice(half), ids.slice(0, half)], part),
      (all): Performed => ({
        results: all.flatMap(({ results }) => results),
        held: all.flatMap(({ held }) => held),
        woken: all.flatMap(({ woken }) => woken),
        below: all.flatMap(({ below }) => below)
      })
    )
  }

  const run = (operation: OperationRow, action: Action, now: number): Effect.Effect<BatchReport, DatabaseError> =>
    Effect.gen(function* () {
      const acting: Acting = { action, act: operation.undoable ? operation.id : null }
      const { ids, isLast, reached } = yield* operation.filter === null
        ? chooseNamed(operation)
        : chooseFiltered(operation, now)
      const { below, held, results, woken } =
        ids.length === 0
          ? nothing
          : yield* together(acting, ids, now, lockTimeouts.all).pipe(
              Effect.catchIf(isHeldUp, () => inHalves(acting, ids, now))
            )
      const others = withoutResult(ids, results)
      const statuses = yield* statusesOf(others)
      const isHeld = new Set<JobId>(held)
      const changed = results.filter((result) => result.changed)
      const stopped: ReadonlyArray<JobResult | CountedEnds.CancelledBelow> =
        action === "cancel" ? [...changed, ...below] : []
      const reasons = [
        ...results.filter((result) => !result.changed).map(() => "dedupe_key_held"),
        ...others.map((id) => (isHeld.has(id) ? "locked" : (statuses.get(id) ?? "not_found")))
      ]
      return {
        done: changed.length,
        changed: changed.map(({ id }) => id),
        failed: 0,
        skipped: tally(reasons),
        woken: new Set([
          ...changed.flatMap(({ queue, status }) => (status === "pending" && queue !== null ? [queue] : [])),
          ...woken
        ]),
        stopped: stopped.filter(({ status }) => status === "running").map(({ id }) => id),
        cancelled: stopped.flatMap(({ kind, queue, status }) =>
          status === "dead" && queue !== null && kind !== undefined ? [{ kind, queue }] : []
        ),
        reached,
        isLast
      }
    })

  return (operation: OperationRow, now: number): Effect.Effect<BatchReport, DatabaseError> =>
    operation.action === "undo" ? undo(operation, now) : run(operation, operation.action, now)
}

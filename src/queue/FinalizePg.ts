import * as SqlClient from "@effect/sql/SqlClient"
import { Clock, Effect, Option } from "effect"
import type { JobId } from "../core/Ids.js"
import type { DeadReason } from "../core/StoredJob.js"
import { never } from "../core/Suspension.js"
import type { Database } from "../database/Database.js"
import { type DatabaseError, mapErrors } from "../database/DatabaseError.js"
import type { Tally } from "../telemetry/Tally.js"
import { type AttemptEnd, type End, errorText, type NextStatus, withoutSuperseded } from "./AttemptEnd.js"
import type { EndedLeases, HeldLeases } from "./claim/HeldLeases.js"
import * as FollowUpsPg from "./FollowUpsPg.js"
import type { JobSql } from "./JobSql.js"
import { type AttemptLog, inStatements } from "./logs/JobLogs.js"
import * as JobLogsPg from "./logs/JobLogsPg.js"
import type { Queue } from "./Queue.js"
import * as SqlArrays from "./SqlArrays.js"
import { isChanged } from "./workflow/ChangedCode.js"
import * as CountedEnds from "./workflow/CountedEnds.js"
import * as LifetimesPg from "./workflow/LifetimesPg.js"

const kept = (error: string | undefined) => (error === undefined ? null : errorText(error))

type Ended = Exclude<End, { readonly _tag: "Suspended" }>

const isEnded = (end: AttemptEnd): end is AttemptEnd & { readonly end: Ended } => end.end._tag !== "Suspended"

const isSuspended = (
  end: AttemptEnd
): end is AttemptEnd & { readonly end: Extract<End, { readonly _tag: "Suspended" }> } => !isEnded(end)

/** Converts one end into the columns of the finalize statement. */
const columnsOf = ({ end }: AttemptEnd & { readonly end: Ended }) => {
  switch (end._tag) {
    case "Done":
      return {
        verb: "done",
        runAt: null,
        counted: true,
        error: null,
        remember: null,
        reason: null,
        result: end.result ?? null,
        unknownTimeout: null
      }
    case "Again":
      return {
        verb: "again",
        runAt: end.runAt,
        counted: end.counted,
        error: kept(end.error),
        remember: end.remember ?? null,
        reason: end.dying ?? null,
        result: null,
        unknownTimeout: end.unknownTimeout ?? null
      }
    case "Dead":
      return {
        verb: "dead",
        runAt: null,
        counted: end.counted,
        error: kept(end.error),
        remember: end.remember ?? end.reason,
        reason: end.reason,
        result: null,
        unknownTimeout: null
      }
  }
}

/**
 * How long a statement waits for a row that another transaction has locked, before the results are written one by one, and
 * then. A caller's transaction keeps its own setting.
 */
const lockWait = (inTransaction: boolean, whenLocked: "wait" | "fail") => {
  if (inTransaction) return null
  return whenLocked === "wait" ? "2s" : "100ms"
}

const followUpOf = (end: Ended): string | null =>
  end._tag === "Dead" && end.followUp !== undefined ? JSON.stringify(end.followUp) : null

interface WrittenEnd {
  readonly status: NextStatus
  readonly dead_reason: DeadReason | null
}

/** A job that was finalized, a follow-up stored because its job died, or a job whose follow-up cannot be stored. */
type WrittenRow =
  | ({ readonly id: JobId; readonly queue: string; readonly kind: null } & WrittenEnd)
  | { readonly id: null; readonly queue: string; readonly kind: string; readonly status: "follow-up" }
  | { readonly id: JobId; readonly queue: string; readonly kind: string; readonly status: "no follow-up" }

const noLeases: EndedLeases = { leases: [], witnesses: [] }

const isPlainDone = ({ end, linked }: AttemptEnd) => end._tag === "Done" && end.result === undefined && linked !== true

/** Whether only the job itself changes when this execution ends: no execution waits for it, as far as the claim knows. */
const isRoot = ({ end, isChild }: AttemptEnd) =>
  isChild === false &&
  !(end._tag === "Dead" && end.reason === "not_undone") &&
  !(end._tag === "Again" && end.parked === true)

/** Callbacks for finalized attempts. */
export interface FinalizeListeners {
  /** These queues have pending jobs again: retries or follow-ups. */
  readonly onPending: (queues: ReadonlySet<string>) => Effect.Effect<void, DatabaseError>
  /** Executions of these queues woke up or have a new due time. */
  readonly onWoken: (queues: ReadonlySet<string>, inTransaction: boolean) => Effect.Effect<void, DatabaseError>
  /** Called before attempts are written that also pause their queue or key. */
  readonly onCooling: (ends: ReadonlyArray<AttemptEnd>, lockWait: string | null) => Effect.Effect<void, DatabaseError>
  /** Called after the ends are written. In a transaction they take effect when the caller commits. */
  readonly onEnded: (ends: ReadonlyArray<AttemptEnd>, inTransaction: boolean) => Effect.Effect<void, DatabaseError>
}

/**
 * Finalizes attempts in PostgreSQL. Jobs that are done without a result, the common case, use a narrow statement; others
 * use a wide one. For jobs whose end an execution counts, the wide statement runs in a transaction that also wakes the
 * executions that wait for them.
 */
export const make = (
  database: typeof Database.Service,
  statements: JobSql,
  leases: HeldLeases,
  tally: typeof Tally.Service,
  listeners: FinalizeListeners
): (typeof Queue.Service)["finalize"] => {
  const { direct, sql, transaction } = database
  const counted = CountedEnds.make(database)
  const lifetimes = LifetimesPg.make(database)
  const jobLogs = JobLogsPg.make(database)

  /**
   * Before the ends are written: the statement compares the leases. A log must not keep a job from ending, nor abort the
   * transaction of a caller.
   */
  const writeLogs = (ends: ReadonlyArray<AttemptEnd>, wait: string | null) => {
    const logs: Array<AttemptLog> = []
    for (const { log } of ends) if (log !== undefined) logs.push(log)
    if (logs.length === 0) return undefined
    const written = Effect.forEach(inStatements(logs), (part) => jobLogs.write(part, wait), { discard: true })
    return Effect.catchIf(
      wait === null ? transaction(written) : written,
      (error) => error._tag !== "DatabaseUnavailable",
      (error) => Effect.logError("the database rejected log lines of jobs; the lines are not stored", error)
    )
  }

  // `Effect.fnUntraced` instead of `Effect.gen`: V8 creates a hidden class in old space for every generator function
  // that runs. A generator function per call would thereby keep the results in its scope, and all that they refer to, in
  // memory until the next full garbage collection.

  const finish = Effect.fnUntraced(function* (ends: ReadonlyArray<AttemptEnd>, now: number, wait: string | null) {
    const ids = SqlArrays.ofPlain(ends.map(({ id }) => id))
    const held = SqlArrays.ofPlain(ends.map(({ lease }) => lease))
    const over = wait === null ? noLeases : leases.takeOver()
    const closing = [SqlArrays.ofPlain(over.leases), SqlArrays.ofPlain(over.witnesses)]
    const all = (yield* direct.count(statements.finish, [ids, held, now, ...closing, wait])) === ends.length
    const rows = all ? [] : yield* mapErrors(sql.unsafe<{ id: JobId }>(statements.notFinished, [ids, now]))
    const movedOn = new Set(rows.map(({ id }) => id))
    for (const end of ends) if (!movedOn.has(end.id)) end.written?.("done", now)
    return [...movedOn]
  })

  // A retry reuses the timestamp of the first try: rows with that timestamp were written by the first try, whose reply
  // was lost. The identity of the array distinguishes a retry from a new call, even if the effect was wrapped.
  const firstTries = new WeakMap<ReadonlyArray<AttemptEnd>, number>()

  /** Returns the jobs that an earlier try of the same batch has already written. */
  const writtenEarlier = (ends: ReadonlyArray<AttemptEnd>, now: number) =>
    mapErrors(
      sql.unsafe<WrittenEnd & { readonly id: JobId }>(statements.writtenAt, [
        SqlArrays.ofPlain(ends.map(({ id }) => id)),
        now
      ])
    )

  const writeEnds = Effect.fnUntraced(function* (
    ends: ReadonlyArray<AttemptEnd & { readonly end: Ended }>,
    now: number,
    isSecondTry: boolean,
    inTransaction: boolean,
    wait: string | null,
    exceptChildren = false
  ) {
    const columns = ends.map(columnsOf)
    const over = inTransaction ? noLeases : leases.takeOver()
    const rows = yield* mapErrors(
      sql.unsafe<WrittenRow>(statements.finalize, [
        SqlArrays.ofPlain(ends.map(({ id }) => id)),
        SqlArrays.ofPlain(ends.map(({ lease }) => lease)),
        SqlArrays.ofTexts(columns.map(({ verb }) => verb)),
        SqlArrays.ofNumbers(columns.map(({ runAt }) => runAt)),
        SqlArrays.ofPlain(columns.map(({ counted }) => counted)),
        SqlArrays.ofTexts(columns.map(({ error }) => error)),
        SqlArrays.ofTexts(columns.map(({ remember }) => remember)),
        SqlArrays.ofTexts(columns.map(({ reason }) => reason)),
        SqlArrays.ofTexts(columns.map(({ result }) => result)),
        now,
        SqlArrays.ofPlain(over.leases),
        SqlArrays.ofNumbers(columns.map(({ unknownTimeout }) => unknownTimeout)),
        SqlArrays.ofPlain(over.witnesses),
        SqlArrays.ofTexts(ends.map(({ end }) => followUpOf(end))),
        wait,
        exceptChildren
      ])
    )
    const became = new Map<JobId, WrittenEnd>()
    for (const row of rows) {
      if (row.status === "follow-up") tally.of(row.queue, row.kind).enqueued(1, now)
      else if (row.status === "no follow-up") yield* FollowUpsPg.logUnsound([row.id])
      else became.set(row.id, row)
    }
    if (isSecondTry && became.size < ends.length) {
      for (const row of yield* writtenEarlier(ends, now)) became.set(row.id, row)
    }
    for (const end of ends) {
      const committing = end.unanswered === undefined ? undefined : firstTries.get(end.unanswered)
      if (committing === undefined || became.has(end.id)) continue
      for (const row of yield* writtenEarlier([end], committing)) became.set(row.id, row)
    }
    const movedOn = ends.flatMap((end) => {
      const written = became.get(end.id)
      if (written === undefined) return [end.id]
      end.written?.(written.status, now, written.dead_reason ?? undefined)
      return []
    })
    const pending = rows.filter(({ status }) => status === "pending" || status === "follow-up")
    if (pending.length > 0) yield* listeners.onPending(new Set(pending.map(({ queue }) => queue)))
    return movedOn
  })

  const writeLinked = Effect.fnUntraced(function* (
    ends: ReadonlyArray<AttemptEnd & { readonly end: Ended }>,
    now: number,
    isSecondTry: boolean,
    wait: string | null
  ) {
    const written: Array<() => void> = []
    const observed = ends.map((end) => ({
      ...end,
      written: (...what: Parameters<NonNullable<AttemptEnd["written"]>>) =>
        void written.push(() => end.written?.(...what))
    }))
    const notUndone = ends.filter(({ end }) => end._tag === "Dead" && end.reason === "not_undone").map(({ id }) => id)
    const parked = ends.filter(({ end }) => end._tag === "Again" && end.parked === true)
    const park =
      parked.length === 0
        ? Effect.void
        : lifetimes.park(
            parked.map(({ id }) => id),
            now
          )
    const [movedOn, queues] = yield* transaction(
      Effect.all([
        Effect.zipLeft(writeEnds(observed, now, isSecondTry, true, wait), counted.nameNotUndone(notUndone)).pipe(
          Effect.zipLeft(park)
        ),
        counted.count(
          ends.map(({ id }) => id),
          now
        )
      ])
    )
    // Counted after the commit.
    for (const call of written) call()
    const woken = new Set([...queues, ...parked.flatMap(({ queue }) => queue ?? [])])
    if (woken.size > 0) yield* listeners.onWoken(woken, wait === null)
    return movedOn
  })

  /** Bounds the lock waits of a transaction. */
  const bounded = (wait: string | null) =>
    wait === null ? Effect.void : mapErrors(sql`select set_config('lock_timeout', ${wait}, true)`)

  const suspend = Effect.fnUntraced(function* (
    ends: ReadonlyArray<AttemptEnd & { readonly end: Extract<End, { readonly _tag: "Suspended" }> }>,
    now: number,
    isSecondTry: boolean,
    wait: string | null
  ) {
    const waits = ends.flatMap(({ end, id }) => end.waits.map((wait) => ({ ...wait, id })))
    const continuing = ends.flatMap(({ end: { continues }, id, lease }) =>
      continues === undefined ? [] : [{ id, lease, continues }]
    )
    const statement = mapErrors(
      sql.unsafe<{ id: JobId; queue: string; run_at: number }>(statements.suspend, [
        SqlArrays.ofPlain(ends.map(({ id }) => id)),
        SqlArrays.ofPlain(ends.map(({ lease }) => lease)),
        SqlArrays.ofPlain(ends.map(({ end }) => end.woken)),
        SqlArrays.ofPlain(ends.map(({ end }) => end.runAt)),
        now,
        SqlArrays.ofPlain(wait === null ? [] : leases.takeOver().leases),
        SqlArrays.ofTexts(ends.map(({ end }) => kept(end.error))),
        SqlArrays.ofPlain(waits.map(({ id }) => id)),
        SqlArrays.ofTexts(waits.map(({ kind }) => kind)),
        SqlArrays.ofTexts(waits.map(({ name }) => name)),
        SqlArrays.ofNumbers(waits.map(({ dueAt }) => dueAt)),
        SqlArrays.ofPlain(ends.map(({ end }) => end.caughtUp === true)),
        SqlArrays.ofTexts(ends.map(({ end }) => (isChanged(end.waits) ? null : (end.release ?? null)))),
        SqlArrays.ofTexts(ends.map(({ end }) => (isChanged(end.waits) ? (end.release ?? null) : null))),
        SqlArrays.ofTexts(waits.map(({ limit = null }) => limit)),
        wait
      ])
    )
    const rows = yield* continuing.length === 0
      ? statement
      : transaction(Effect.zipRight(Effect.zipRight(bounded(wait), lifetimes.renew(continuing)), statement))
    const suspended = new Set(rows.map(({ id }) => id))
    if (isSecondTry && suspended.size < ends.length) {
      for (const row of yield* writtenEarlier(ends, now)) suspended.add(row.id)
    }
    const timed = new Set(rows.filter(({ run_at }) => run_at < never).map(({ queue }) => queue))
    if (timed.size > 0) yield* listeners.onWoken(timed, wait === null)
    for (const end of ends) if (suspended.has(end.id)) end.written?.("pending", now)
    return ends.filter(({ id }) => !suspended.has(id)).map(({ id }) => id)
  })

  // Results that are written while others of their batch are not yet. If these cannot be, a retry of the batch or of one result
  // neither writes nor reports them again.
  const reported = new WeakSet<AttemptEnd>()

  /**
   * Reports what a statement has written. A job that lost its lease was not written, so it cannot show whether the other jobs of
   * the statement were (see HeldLeases).
   */
  const report = (
    part: ReadonlyArray<AttemptEnd>,
    movedOn: ReadonlyArray<JobId>,
    inTransaction: boolean,
    all: number
  ) => {
    const lost = new Set(movedOn)
    const written = lost.size === 0 ? part : part.filter(({ id }) => !lost.has(id))
    leases.forget(inTransaction ? part : part.filter(({ id }) => lost.has(id)))
    leases.ended(written)
    if (part.length < all && !inTransaction) for (const end of written) reported.add(end)
    return Effect.as(listeners.onEnded(written, inTransaction), movedOn)
  }

  return Effect.fnUntraced(function* (batch: ReadonlyArray<AttemptEnd>, whenLocked: "wait" | "fail" = "wait") {
    const firstTry = firstTries.get(batch)
    const now = firstTry ?? (yield* Clock.currentTimeMillis)
    firstTries.set(batch, now)
    const isSecondTry = firstTry !== undefined
    const { current, superseded } = withoutSuperseded(batch)
    const ends = isSecondTry || batch.length === 1 ? current.filter((end) => !reported.has(end)) : current
    if (whenLocked === "fail" && ends.length > 0) {
      const held = [SqlArrays.ofPlain(ends.map(({ id }) => id)), SqlArrays.ofPlain(ends.map(({ lease }) => lease))]
      yield* mapErrors(sql.unsafe(statements.lockAtOnce, held))
    }
    // In a caller's transaction the ends take effect only at commit, which is not observable here.
    const inTransaction = Option.isSome(yield* Effect.serviceOption(SqlClient.TransactionConnection))
    const wait = lockWait(inTransaction, whenLocked)
    const reports = (part: ReadonlyArray<AttemptEnd>, lost: ReadonlyArray<JobId>) =>
      report(part, lost, inTransaction, ends.length)
    const plain = ends.filter(isPlainDone)
    const rest = plain.length === ends.length ? [] : ends.filter((end) => !isPlainDone(end))
    const others = rest.filter((end) => end.linked !== true).filter(isEnded)
    const linked = rest.filter((end) => end.linked === true).filter(isEnded)
    const waiting = rest.filter(isSuspended)
    const movedOn = superseded.map(({ id }) => id)
    leases.forget(superseded)
    const logging = writeLogs(ends, wait)
    if (logging !== undefined) yield* logging
    if (plain.length > 0) movedOn.push(...(yield* reports(plain, yield* finish(plain, now, wait))))
    // Pause first: otherwise one of these jobs could be claimed again in between.
    const cooling = rest.filter(({ end }) => end._tag === "Again" && end.cools !== undefined)
    if (cooling.length > 0) yield* listeners.onCooling(cooling, wait)
    if (others.length > 0)
      movedOn.push(...(yield* reports(others, yield* writeEnds(others, now, isSecondTry, inTransaction, wait))))
    const children = linked.filter((end) => !isRoot(end))
    const roots = linked.filter(isRoot)
    if (roots.length > 0) {
      const left = new Set(yield* writeEnds(roots, now, isSecondTry, inTransaction, wait, true))
      // An execution may have become a child while it ran.
      children.push(...roots.filter(({ id }) => left.has(id)))
      const alone = roots.filter(({ id }) => !left.has(id))
      yield* reports(alone, [])
    }
    if (children.length > 0)
      movedOn.push(...(yield* reports(children, yield* writeLinked(children, now, isSecondTry, wait))))
    if (waiting.length > 0) movedOn.push(...(yield* reports(waiting, yield* suspend(waiting, now, isSecondTry, wait))))
    if (rest.length > 0) for (const end of ends) reported.delete(end)
    return movedOn
  })
}

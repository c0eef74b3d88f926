import { createHash } from "node:crypto"
import { withoutTrace } from "../core/ErrorText.js"
import type { BatchId, JobId, Lease, PodId } from "../core/Ids.js"
import {
  cancelledLate,
  computed,
  type DeadReason,
  type DedupeScope,
  type FollowUp,
  type HistoryEntry,
  limits,
  type Status,
  type StoredJob,
  stateOf
} from "../core/StoredJob.js"
import { subjectMeta, subjectOf } from "../core/Subject.js"
import type { Continuation } from "../core/Suspension.js"
import { type End, errorText } from "./AttemptEnd.js"
import { isChanged } from "./workflow/ChangedCode.js"

// A job row and its transitions, as pure functions. pending -> running: claim. running -> done, dead or pending:
// finalize by its pod. running -> pending or dead: reaper. pending -> dead: cancel. done or dead -> pending: requeue.

/**
 * A row of the job table, as migrations/0001_baseline.sql defines it. JSON is kept as text, so that callers never
 * share a mutable value.
 */
export interface JobRow {
  readonly id: JobId
  readonly queue: string
  readonly kind: string
  readonly version: number
  readonly payload: string
  readonly key: string | undefined
  readonly status: Status
  readonly priority: number
  readonly runAt: number
  readonly attempt: number
  readonly attempts: number
  readonly crashCount: number
  readonly deathCount: number
  readonly dedupe: { readonly key: string; readonly scope: DedupeScope; readonly until: number | undefined } | undefined
  /** Set while the job is running, absent otherwise. */
  readonly run: { readonly lease: Lease; readonly pod: PodId; readonly heartbeatAt: number } | undefined
  /** The pod that ran a done job. */
  readonly ranOn: PodId | undefined
  readonly startedAt: number | undefined
  readonly createdAt: number
  readonly updatedAt: number
  readonly finishedAt: number | undefined
  /** When a pod without a handler for the kind first claimed the job; cleared once a pod knows the kind. */
  readonly unknownSince: number | undefined
  readonly cancelRequestedAt: number | undefined
  readonly onDead: string | undefined
  readonly result: string | undefined
  readonly progress: string | undefined
  readonly lastError: string | undefined
  readonly history: ReadonlyArray<HistoryEntry>
  readonly reason: DeadReason | undefined
  /** The reason with which an execution will be dead, once it has undone its steps. */
  readonly dying: DeadReason | undefined
  /** Whether a run of an execution was cut off, and no later run has caught up with it. */
  readonly cut: boolean
  /** The release of the code that last suspended an execution. */
  readonly release: string | undefined
  readonly meta: string | undefined
  readonly batch: BatchId | undefined
  /** Wake-ups and ended runs of an execution; undefined for other jobs. */
  readonly woken: number | undefined
  /** Whether the job is a child whose end an execution counts, and is not an execution itself. */
  readonly isChild: boolean
}

export const blank = {
  status: "pending",
  attempt: 0,
  crashCount: 0,
  deathCount: 0,
  run: undefined,
  ranOn: undefined,
  startedAt: undefined,
  finishedAt: undefined,
  unknownSince: undefined,
  cancelRequestedAt: undefined,
  result: undefined,
  progress: undefined,
  lastError: undefined,
  history: [],
  reason: undefined,
  dying: undefined,
  cut: false,
  release: undefined,
  batch: undefined
} as const satisfies Partial<JobRow>

/**
 * A copy of a row with the layout of all others. Each `{ ...row }` of a row that was copied elsewhere has a layout of its own;
 * after a few of them V8 makes every copy a hash table, which takes longer to copy and to read than most changes.
 */
export const uniform = (row: JobRow): JobRow => ({
  id: row.id,
  queue: row.queue,
  kind: row.kind,
  version: row.version,
  payload: row.payload,
  key: row.key,
  priority: row.priority,
  runAt: row.runAt,
  attempts: row.attempts,
  dedupe: row.dedupe,
  createdAt: row.createdAt,
  updatedAt: row.updatedAt,
  onDead: row.onDead,
  meta: row.meta,
  woken: row.woken,
  isChild: row.isChild,
  status: row.status,
  attempt: row.attempt,
  crashCount: row.crashCount,
  deathCount: row.deathCount,
  run: row.run,
  ranOn: row.ranOn,
  startedAt: row.startedAt,
  finishedAt: row.finishedAt,
  unknownSince: row.unknownSince,
  cancelRequestedAt: row.cancelRequestedAt,
  result: row.result,
  progress: row.progress,
  lastError: row.lastError,
  history: row.history,
  reason: row.reason,
  dying: row.dying,
  cut: row.cut,
  release: row.release,
  batch: row.batch
})

const parsed = (text: string | undefined): unknown => (text === undefined ? undefined : JSON.parse(text))

export const toStored = (row: JobRow, now: number): StoredJob => {
  const {
    deathCount: _,
    unknownSince: __,
    dying: ___,
    cut: ____,
    release: _____,
    woken,
    isChild: ______,
    status: _______,
    dedupe,
    ranOn,
    run,
    ...shared
  } = row
  return {
    ...shared,
    state: stateOf(row, now),
    payload: parsed(row.payload),
    dedupe: dedupe === undefined ? undefined : { key: dedupe.key, scope: dedupe.scope },
    pod: run?.pod ?? ranOn,
    execution: woken === undefined ? undefined : dedupe?.key,
    heartbeatAt: run?.heartbeatAt,
    onDead: isComputed(row) ? undefined : (parsed(row.onDead) as FollowUp | undefined),
    result: parsed(row.result),
    progress: parsed(row.progress),
    meta: parsed(row.meta)
  }
}

export const begin = (row: JobRow, by: { readonly lease: Lease; readonly pod: PodId }, now: number): JobRow => ({
  ...row,
  status: "running",
  attempt: Math.min(row.attempt + 1, row.attempts),
  run: { ...by, heartbeatAt: now },
  startedAt: now,
  updatedAt: now
})

const remember = (row: JobRow, outcome: string | undefined, message: string | undefined, now: number) => {
  if (row.run === undefined || outcome === undefined) return row.history
  const entry: HistoryEntry = {
    attempt: row.attempt,
    pod: row.run.pod,
    startedAt: row.startedAt ?? now,
    endedAt: now,
    outcome,
    ...(message === undefined ? {} : { message })
  }
  return [...row.history, entry].slice(-limits.historyEntries)
}

const spent = (row: JobRow, counted: boolean) => (counted ? row.attempt : Math.max(0, row.attempt - 1))

export const isExecution = ({ woken }: JobRow): boolean => woken !== undefined

/** Whether the end of the job is counted: the job is an execution or a child of one. */
export const isLinked = (row: JobRow): boolean => isExecution(row) || row.isChild

/** Counts an ended run of an execution. */
const nextWoken = (row: JobRow) => (row.woken === undefined ? undefined : row.woken + 1)

export const finish = (row: JobRow, result: string | undefined, now: number): JobRow => ({
  ...row,
  woken: nextWoken(row),
  status: "done",
  run: undefined,
  ranOn: row.run?.pod,
  result,
  lastError: undefined,
  history: row.cancelRequestedAt === undefined ? row.history : remember(row, "done", cancelledLate, now),
  finishedAt: now,
  updatedAt: now
})

interface Death {
  readonly reason: DeadReason
  readonly counted: boolean
  readonly error: string | undefined
  /** Outcome recorded in the history; absent if no entry is added. */
  readonly remember: string | undefined
  readonly followUp?: FollowUp | undefined
}

export const die = (row: JobRow, death: Death, now: number): JobRow => {
  const error = death.error === undefined ? undefined : errorText(death.error)
  return {
    ...row,
    status: "dead",
    run: undefined,
    woken: nextWoken(row),
    reason: death.reason,
    dying: undefined,
    deathCount: row.deathCount + 1,
    attempt: spent(row, death.counted),
    onDead: death.followUp !== undefined && isComputed(row) ? JSON.stringify(death.followUp) : row.onDead,
    lastError: error ?? row.lastError,
    history: remember(row, death.remember, error, now),
    finishedAt: now,
    updatedAt: now
  }
}

export const tryAgain = (row: JobRow, end: Extract<End, { readonly _tag: "Again" }>, now: number): JobRow => {
  if (row.cancelRequestedAt !== undefined && !isExecution(row)) return die(row, { ...end, reason: "cancelled" }, now)
  const { unknownTimeout } = end
  if (unknownTimeout !== undefined && row.unknownSince !== undefined && now - row.unknownSince >= unknownTimeout) {
    return die(row, { ...end, reason: "unknown_kind", remember: "unknown_kind" }, now)
  }
  const error = end.error === undefined ? undefined : errorText(end.error)
  const unknownSince = unknownTimeout === undefined ? undefined : (row.unknownSince ?? now)
  return {
    ...row,
    unknownSince,
    status: "pending",
    run: undefined,
    woken: nextWoken(row),
    // A job of an unknown kind is due sooner at first: another pod may have its handler.
    runAt: unknownSince === undefined ? end.runAt : Math.min(end.runAt, now + Math.max(500, now - unknownSince)),
    attempt: end.dying === undefined ? spent(row, end.counted) : 0,
    ...(end.dying === undefined ? {} : { crashCount: 0 }),
    cut: row.cut || (isExecution(row) && end.remember !== undefined),
    dying: row.dying ?? (row.cancelRequestedAt === undefined ? end.dying : undefined),
    // A job returned unstarted has no new error, so it keeps its previous one.
    lastError: error ?? row.lastError,
    history: remember(row, end.remember, error, now),
    updatedAt: now
  }
}

/** Code that does not follow the journal that it wrote itself is not preferred to other code. */
const releaseAfter = (row: JobRow, { release, waits }: Extract<End, { readonly _tag: "Suspended" }>) => {
  if (!isChanged(waits)) return release ?? row.release
  return row.release === release ? undefined : row.release
}

/** The execution with the payload of its new journal. */
export const renewed = (row: JobRow, { payload, version }: Continuation): JobRow => ({
  ...row,
  payload,
  version,
  crashCount: 0,
  cut: false,
  progress: undefined
})

/** Returns an execution to the queue until one of its waits ends. `isDue`: one of the waits has already ended. */
export const suspend = (
  row: JobRow,
  end: Extract<End, { readonly _tag: "Suspended" }>,
  isDue: boolean,
  now: number
): JobRow => ({
  ...row,
  status: "pending",
  run: undefined,
  // With key order, a job without a start time does not block other jobs of its key.
  startedAt: undefined,
  unknownSince: undefined,
  woken: nextWoken(row),
  runAt: isDue || (row.woken ?? 0) > end.woken ? now : end.runAt,
  attempt: spent(row, false),
  cut: row.cut && end.caughtUp !== true,
  release: releaseAfter(row, end),
  lastError: end.error === undefined ? (row.dying === undefined ? undefined : row.lastError) : errorText(end.error),
  updatedAt: now
})

/**
 * Returns a job to the queue after its pod stopped sending heartbeats. An execution that reaches the limit of crashes runs
 * again to undo its steps; at the next limit it is dead, and its error names the steps that are `notUndone`.
 */
export const rescue = (row: JobRow, notUndone: string, now: number): JobRow => {
  const crashCount = row.crashCount + 1
  const lastError = `process ${row.run?.pod} ended while this job ran (crash ${crashCount} of ${limits.crashes})`
  const crashed = { ...row, crashCount, lastError }
  const end = { counted: false, error: undefined, remember: "crashed" }
  const isPoison = crashed.crashCount >= limits.crashes
  if (!isExecution(row) && (row.cancelRequestedAt !== undefined || isPoison)) {
    return die(crashed, { ...end, reason: row.cancelRequestedAt === undefined ? "poison" : "cancelled" }, now)
  }
  if (isPoison && (row.cancelRequestedAt !== undefined || row.dying !== undefined)) {
    return { ...die(crashed, { ...end, reason: "not_undone" }, now), lastError: `${lastError}${notUndone}` }
  }
  return {
    ...crashed,
    cut: isExecution(row),
    ...(isPoison ? { crashCount: 0, dying: row.dying ?? ("poison" as const) } : {}),
    status: "pending",
    run: undefined,
    woken: nextWoken(row),
    runAt: Math.min(row.runAt, now),
    attempt: spent(row, false),
    history: remember(row, "crashed", undefined, now),
    updatedAt: now
  }
}

/** The time of death, so that the id sorts by time, plus a hash: the same death always gives the same id. */
const followUpId = (dead: JobRow, now: number): JobId => {
  const digest = createHash("md5").update(`${dead.id}:${dead.deathCount}`).digest("hex")
  return `${now.toString(16).padStart(12, "0")}7${digest.slice(13)}`.replace(
    /^(.{8})(.{4})(.{4})(.{4})(.{12})$/,
    "$1-$2-$3-$4-$5"
  ) as JobId
}

/** Whether the code of the kind computes the follow-up. */
export const isComputed = ({ onDead }: JobRow): boolean => onDead === JSON.stringify(computed)

/** The follow-up of a job that has just died at `diedAt`. */
export const followUp = (dead: JobRow, diedAt: number, now = diedAt): JobRow | undefined => {
  if (dead.onDead === undefined || dead.reason === "cancelled" || isComputed(dead)) return undefined
  const { payload, priority = 0, routed: _, ...named } = JSON.parse(dead.onDead) as FollowUp
  return {
    ...blank,
    ...named,
    id: followUpId(dead, diedAt),
    payload: JSON.stringify(payload),
    key: undefined,
    priority,
    runAt: now,
    dedupe: undefined,
    createdAt: now,
    updatedAt: now,
    onDead: undefined,
    woken: undefined,
    isChild: false,
    meta: JSON.stringify({
      ...subjectMeta(subjectOf(parsed(dead.meta))),
      follows: dead.id,
      reason: dead.reason,
      error: dead.lastError === undefined ? null : withoutTrace(dead.lastError)
    })
  }
}

import * as ErrorText from "../core/ErrorText.js"
import type { DeadReason, HistoryEntry, State, StoredJob } from "../core/StoredJob.js"
import type { Reason, Why } from "../queue/why/Why.js"

const dateOf = (millis: number | undefined): Date | undefined => (millis === undefined ? undefined : new Date(millis))

/** An attempt that did not simply succeed. */
export interface AttemptView {
  readonly attempt: number
  readonly pod: string
  readonly startedAt: Date
  readonly endedAt: Date
  readonly outcome: string
  readonly message: string | undefined
  /** Where the error was thrown, and its causes. */
  readonly stack: string | undefined
}

/** Why a job is in its current state. */
export interface WhyView {
  /** For programs. */
  readonly reason: Reason
  /** The cause and what to do about it. */
  readonly detail: string
  /** When this ends without intervention, if known. */
  readonly until: Date | undefined
}

export const whyOf = ({ detail, reason, until }: Why): WhyView => ({ reason, detail, until: dateOf(until) })

/** A job as it is stored. */
export interface JobView {
  readonly id: string
  readonly kind: string
  readonly queue: string
  readonly state: State
  readonly payload: unknown
  readonly result: unknown
  readonly progress: unknown
  readonly meta: unknown
  readonly key: string | undefined
  readonly dedupeKey: string | undefined
  readonly priority: number
  readonly version: number
  readonly attempt: number
  readonly attempts: number
  readonly runAt: Date
  readonly createdAt: Date
  readonly startedAt: Date | undefined
  readonly finishedAt: Date | undefined
  /** The message of the last error. */
  readonly lastError: string | undefined
  /** Where the last error was thrown, and its causes. */
  readonly lastErrorStack: string | undefined
  readonly deadReason: DeadReason | undefined
  readonly history: ReadonlyArray<AttemptView>
  /** Id of the job's batch. */
  readonly batch: string | undefined
}

export const errorOf = (
  text: string | undefined
): { readonly message?: string; readonly trace?: string | undefined } =>
  text === undefined ? {} : ErrorText.split(text)

const attemptOf = ({ attempt, endedAt, message, outcome, pod, startedAt }: HistoryEntry): AttemptView => ({
  attempt,
  pod,
  startedAt: new Date(startedAt),
  endedAt: new Date(endedAt),
  outcome,
  message: errorOf(message).message,
  stack: errorOf(message).trace
})

export const of = (job: StoredJob): JobView => ({
  id: job.id,
  kind: job.kind,
  queue: job.queue,
  state: job.state,
  payload: job.payload,
  result: job.result,
  progress: job.progress,
  meta: job.meta,
  key: job.key,
  dedupeKey: job.dedupe?.key,
  priority: job.priority,
  version: job.version,
  attempt: job.attempt,
  attempts: job.attempts,
  runAt: new Date(job.runAt),
  createdAt: new Date(job.createdAt),
  startedAt: dateOf(job.startedAt),
  finishedAt: dateOf(job.finishedAt),
  lastError: errorOf(job.lastError).message,
  lastErrorStack: errorOf(job.lastError).trace,
  deadReason: job.deadReason,
  history: job.history.map(attemptOf),
  batch: job.batch
})

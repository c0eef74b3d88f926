import { Cause, Duration, Exit, Option } from "effect"
import * as Backoff from "../../core/Backoff.js"
import * as ErrorText from "../../core/ErrorText.js"
import * as Outcome from "../../core/Outcome.js"
import type { Unopened } from "../../core/Sealed.js"
import { faultOfWait } from "../../core/Storable.js"
import { type DeadReason, limits } from "../../core/StoredJob.js"
import * as Suspension from "../../core/Suspension.js"
import * as Thrown from "../../core/Thrown.js"
import type { LateSuccess } from "../../handlers/JobContext.js"
import { End } from "../../queue/AttemptEnd.js"
import type { JobKind } from "../../queue/Job.js"
import { jsonText } from "../../queue/NewJob.js"
import type { ClaimedJob } from "../../queue/Queue.js"
import * as ChangedCode from "../../queue/workflow/ChangedCode.js"

// Decides what happens to a job after an attempt. Pure: time and randomness are parameters.

/** Why a run was interrupted. */
export type StopReason = "timeout" | "cancelled" | "lost" | "shutdown"

/** What the end of an attempt depends on besides the job and its handler. */
export interface EndContext {
  readonly now: number
  /** Random number from 0 to 1, for jitter. */
  readonly chance: number
  /** The queue's backoff, if it has one. */
  readonly curve: () => Backoff.Backoff | undefined
}

/** What the end of an attempt depends on of its kind. */
export type JudgedKind = Pick<JobKind<never>, "backoff" | "timeout">

/** Longest delay of a job that this pod cannot run, so that another pod can claim it. */
const longestElsewhere = Duration.seconds(30)
/** A job is dead if no pod had a handler for its kind for this long. */
const unknownKindTimeout = Duration.hours(24)
/**
 * Shortest delay of a snooze or a throttle. Neither uses an attempt, so nothing else would stop a job that asks for no
 * delay.
 */
const shortestPause = Duration.seconds(1)
/** Delay of a throttled job whose outcome specifies none. */
const throttlePause = Duration.seconds(60)

const again = (
  after: Duration.Duration,
  { now }: EndContext,
  rest: { counted: boolean; error?: string; remember?: string; dying?: DeadReason }
) =>
  End.Again({
    runAt: now + Duration.toMillis(after),
    counted: rest.counted,
    error: rest.error,
    remember: rest.remember,
    dying: rest.dying
  })

/** A death that the handler did not decide. An execution first undoes its steps, in separate runs. */
const dies = (job: ClaimedJob, reason: DeadReason, error: string, at: EndContext): End => {
  if (job.execution === undefined) return End.Dead({ reason, counted: true, error })
  return job.execution.cancelled
    ? End.Dead({ reason: "not_undone", counted: true, error })
    : again(Duration.zero, at, { counted: true, error, remember: reason, dying: reason })
}

/** An invalid delay is a bug in the handler that a retry would repeat, so the job is dead. */
const unstorable = (whose: string, wait: Duration.Duration | undefined, error?: string): End | undefined => {
  const fault = wait === undefined ? undefined : faultOfWait(wait)
  if (fault === undefined) return undefined
  const line = `${whose} ${fault}`
  return End.Dead({
    reason: "rejected",
    counted: true,
    error: error === undefined ? line : ErrorText.withLine(error, line)
  })
}

/** Attempts before the last progress of an execution do not count. */
const attemptOf = ({ attempt, execution }: ClaimedJob): number => (execution?.state.recorded === true ? 1 : attempt)

/** The delay of the backoff. A backoff that throws or returns no duration is replaced by the default. */
const backoffOf = (job: ClaimedJob, kind: JudgedKind, at: EndContext) => {
  const attempt = attemptOf(job)
  const fallback = Backoff.ladder(attempt, at.chance)
  try {
    const wait: unknown = (kind.backoff ?? at.curve() ?? Backoff.ladder)(attempt, at.chance)
    if (Duration.isDuration(wait)) return { wait, fault: undefined }
    return { wait: fallback, fault: "the kind's backoff must return a duration; the default was used" }
  } catch (error) {
    return { wait: fallback, fault: `the kind's backoff threw, the default was used: ${ErrorText.messageOf(error)}` }
  }
}

/** A failure that uses up an attempt: retry after the backoff, or dead when no attempts are left. */
const failed = (job: ClaimedJob, kind: JudgedKind, error: string, at: EndContext, after?: Duration.Duration): End => {
  if (attemptOf(job) >= job.attempts) return dies(job, "exhausted", error, at)
  const { fault, wait } = after === undefined ? backoffOf(job, kind, at) : { fault: undefined, wait: after }
  if (fault !== undefined)
    return again(wait, at, { counted: true, error: ErrorText.withLine(error, fault), remember: "failed" })
  const whose = after === undefined ? "the delay of the kind's backoff" : "after of Outcome.retry"
  return unstorable(whose, wait, error) ?? again(wait, at, { counted: true, error, remember: "failed" })
}

const waitOf = ({ after }: { readonly after?: number }): Duration.Duration | undefined =>
  after === undefined ? undefined : Duration.millis(after)

const ofOutcome = (job: ClaimedJob, kind: JudgedKind, outcome: Outcome.Outcome, at: EndContext): End => {
  switch (outcome._tag) {
    case "Done":
      return done(job, outcome.result, at)
    case "Retry":
      return failed(job, kind, outcome.error, at, waitOf(outcome))
    case "Dead":
      return End.Dead({ reason: outcome.reason ?? "rejected", counted: true, error: outcome.error })
    case "Throttled":
      return unstorable("after of Outcome.throttled", waitOf(outcome)) ?? throttled(job, outcome, at)
    case "Snooze":
      return (
        unstorable("after of Outcome.snooze", Duration.millis(outcome.after)) ??
        again(Duration.max(Duration.millis(outcome.after), shortestPause), at, { counted: false, remember: "snoozed" })
      )
    case "Cancelled":
      return End.Dead({ reason: "cancelled", counted: true, error: undefined })
  }
}

/**
 * If the queue or the key pauses, the job keeps its due time, so that it can run as soon as the pause ends, even if it
 * ends early.
 */
const throttled = (job: ClaimedJob, outcome: Outcome.Throttled, at: EndContext): End => {
  const { by, scope } = outcome
  const given = waitOf(outcome)
  const after = given === undefined ? undefined : Duration.max(given, shortestPause)
  if (scope === "job" || (scope === "key" && job.key === undefined)) {
    return again(after ?? throttlePause, at, { counted: false, remember: Outcome.throttledWords(by) })
  }
  const cools = { scope, after: after === undefined ? undefined : Duration.toMillis(after) }
  const remember = Outcome.throttledWords(by)
  return End.Again({ runAt: job.runAt, counted: false, error: undefined, remember, cools })
}

/** Most jobs end like this, so they share one object. */
const doneWithoutResult = End.Done({ result: undefined })

/** A result that cannot be stored is a bug in the handler that a retry would repeat, so the job is dead. */
const done = (job: ClaimedJob, result: unknown, at: EndContext): End => {
  if (result === undefined) return doneWithoutResult
  const text = jsonText(result, limits.resultBytes)
  if (text._tag === "Right") return End.Done({ result: text.right })
  return dies(job, "rejected", `its result ${text.left}`, at)
}

const suspended = (suspension: Suspension.Suspension): End =>
  End.Suspended({
    runAt: Suspension.runAtOf(suspension),
    woken: suspension.woken,
    waits: suspension.waits,
    error: suspension.error,
    caughtUp: suspension.caughtUp,
    continues: suspension.continues
  })

/** A handler that finished without being interrupted. Never throws: a result that cannot be read is a failure. */
export const ofExit = (job: ClaimedJob, kind: JudgedKind, exit: Exit.Exit<unknown, unknown>, at: EndContext): End => {
  try {
    return readExit(job, kind, Exit.isSuccess(exit) ? exit : Exit.failCause(Thrown.plainCause(exit.cause)), at)
  } catch (error) {
    return failed(job, kind, `its result cannot be read: ${ErrorText.messageOf(error)}`, at)
  }
}

const readExit = (job: ClaimedJob, kind: JudgedKind, exit: Exit.Exit<unknown, unknown>, at: EndContext): End => {
  if (Exit.isSuccess(exit)) {
    if (Outcome.isOutcome(exit.value)) return ofOutcome(job, kind, exit.value, at)
    return Suspension.isSuspension(exit.value) ? suspended(exit.value) : done(job, exit.value, at)
  }
  const failure = Cause.failureOption(exit.cause)
  // Code deep inside a handler can end the attempt by failing with or throwing an outcome. Done is excluded: a failure
  // never counts as success.
  const thrown = Option.orElse(failure, () => Cause.dieOption(exit.cause))
  if (Option.isSome(thrown) && Outcome.isOutcome(thrown.value) && thrown.value._tag !== "Done") {
    return ofOutcome(job, kind, thrown.value, at)
  }
  const error = Option.isSome(failure) ? ErrorText.ofFailure(failure.value) : ErrorText.ofDefects(exit.cause)
  return failed(job, kind, error, at)
}

/**
 * The end of a handler that succeeded although it was interrupted. A cancel never replaces a success: the work is done,
 * and running it again would repeat it. After a timeout or at shutdown a handler that used its signal may have returned
 * early, so its job runs again.
 */
export const ofLate = (
  job: ClaimedJob,
  reason: StopReason,
  late: LateSuccess | undefined,
  at: EndContext
): End | undefined => {
  if (late === undefined || reason === "lost" || (late.mayBePartial && reason !== "cancelled")) return undefined
  if (Suspension.isSuspension(late.result)) return undefined
  if (!Outcome.isOutcome(late.result)) return done(job, late.result, at)
  return late.result._tag === "Done" ? done(job, late.result.result, at) : undefined
}

/** A handler that was interrupted. A lost job belongs to another pod, so nothing is written for it. */
export const ofStop = (
  job: ClaimedJob,
  kind: JudgedKind | undefined,
  reason: StopReason,
  at: EndContext,
  timeoutHint?: string
): End | undefined => {
  switch (reason) {
    case "lost":
      return undefined
    case "cancelled":
      // An execution runs again at once, to undo its steps.
      return job.execution === undefined
        ? End.Dead({ reason: "cancelled", counted: true, error: undefined })
        : End.Suspended({ runAt: at.now, woken: -1, waits: [], error: undefined })
    case "shutdown":
      return again(Duration.zero, at, { counted: false, remember: "interrupted by shutdown" })
    case "timeout": {
      if (kind === undefined) return again(Duration.zero, at, { counted: false })
      const error = `timed out after ${Duration.format(kind.timeout)}${timeoutHint === undefined ? "" : `: ${timeoutHint}`}`
      return failed(job, kind, error, at)
    }
  }
}

/** Returns an unstarted job to the queue unchanged. */
export const ofUnstarted = (job: ClaimedJob): End =>
  End.Again({ runAt: job.runAt, counted: false, error: undefined, remember: undefined })

/**
 * This pod has no handler for the kind, or the payload is from newer code. Other pods have a day, from the first
 * attempt on, to run the job.
 */
export const ofUnknown = (why: string, { now }: EndContext): End =>
  End.Again({
    runAt: now + Duration.toMillis(longestElsewhere),
    counted: false,
    error: why,
    remember: undefined,
    unknownTimeout: Duration.toMillis(unknownKindTimeout)
  })

/**
 * The payload is sealed. Without its key, the job waits for a pod that has it, without a limit: a missing key must not cost a job.
 * A payload that was changed is undecodable for all pods.
 */
export const ofSealed = (job: ClaimedJob, { damaged, reason }: Unopened, at: EndContext): End => {
  if (damaged) return ofUnreadable(job, reason, at.now)
  const end = ofUnknown(reason, at)
  return end._tag === "Again" ? { ...end, unknownTimeout: Duration.toMillis(Duration.days(limits.waitDays)) } : end
}

/**
 * No known version of the schema can decode the payload. The job is kept for a later release that can. An execution may have
 * done steps, so it does not die: it waits for such a release.
 */
export const ofUnreadable = ({ execution }: ClaimedJob, why: string, now: number): End =>
  execution === undefined
    ? End.Dead({ reason: "undecodable", counted: false, error: why })
    : suspended(ChangedCode.ofPayload(why, execution, now))

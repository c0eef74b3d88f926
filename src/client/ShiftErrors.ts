import { Cause, Duration, Predicate } from "effect"
import { format } from "../core/DurationText.js"
import { headline } from "../core/ErrorText.js"
import { type Issue, issuesText } from "../core/Issues.js"
import type { DeadReason, State } from "../core/StoredJob.js"
import type { WhyView } from "./JobView.js"

// Errors that promises reject with: plain classes, so that programs without Effect never see its values.

/** Base class of the client's errors. Test `code`, which is stable; the message may change. */
export class ShiftError extends Error {
  override readonly name: string = "ShiftError"
  readonly code: string

  constructor(code: string, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
  }
}

/** The payload does not pass the job's validator. Nothing was stored. */
export class InvalidPayloadError extends ShiftError {
  override readonly name = "InvalidPayloadError"
  constructor(
    readonly kind: string,
    readonly issues: ReadonlyArray<Issue>,
    /** Index of the payload in `enqueueMany`; 0 for a single job. */
    readonly index: number,
    message: string
  ) {
    super("INVALID_PAYLOAD", message)
  }
}

/** An option or a limit was violated. Nothing was stored. */
export class InvalidJobError extends ShiftError {
  override readonly name = "InvalidJobError"
  constructor(
    readonly field: string,
    readonly reason: string,
    readonly index: number,
    message: string
  ) {
    super("INVALID_JOB", message)
  }
}

/** An argument of a client function is invalid: an option, a duration, a date. */
export class InvalidOptionError extends ShiftError {
  override readonly name = "InvalidOptionError"
  constructor(
    readonly option: string,
    message: string
  ) {
    super("INVALID_OPTION", message)
  }
}

/** A job with this id exists and has different content. */
export class JobIdTakenError extends ShiftError {
  override readonly name = "JobIdTakenError"
  constructor(
    readonly id: string,
    message: string
  ) {
    super("JOB_ID_TAKEN", message)
  }
}

/** The queue has reached its depth cap. */
export class QueueFullError extends ShiftError {
  override readonly name = "QueueFullError"
  constructor(
    readonly queue: string,
    readonly cap: number,
    message: string
  ) {
    super("QUEUE_FULL", message)
  }
}

/** There is no job with this id: it was deleted, or its transaction was rolled back or is not committed yet. */
export class JobNotFoundError extends ShiftError {
  override readonly name = "JobNotFoundError"
  constructor(
    readonly id: string,
    message: string
  ) {
    super("JOB_NOT_FOUND", message)
  }
}

/** The action is not possible in the job's current state. */
export class JobStateError extends ShiftError {
  override readonly name = "JobStateError"
  constructor(
    readonly id: string,
    readonly state: State,
    readonly allowed: ReadonlyArray<State>,
    message: string
  ) {
    super("JOB_STATE", message)
  }
}

/** Another job holds this job's dedupe key, so it cannot become active again. */
export class DedupeKeyHeldError extends ShiftError {
  override readonly name = "DedupeKeyHeldError"
  constructor(
    readonly id: string,
    readonly holder: string,
    message: string
  ) {
    super("DEDUPE_KEY_HELD", message)
  }
}

/** The job whose result was awaited is dead. */
export class JobDeadError extends ShiftError {
  override readonly name = "JobDeadError"
  constructor(
    readonly id: string,
    readonly reason: DeadReason,
    readonly attempts: number,
    readonly lastError: string | undefined,
    /** Where the last error was thrown, and its causes. */
    readonly lastErrorStack: string | undefined,
    remedy = reason === "cancelled" ? "Requeue it to run it again." : "Fix the cause, then requeue it."
  ) {
    const tried = attempts === 0 ? "" : ` after ${attempts} ${attempts === 1 ? "attempt" : "attempts"}`
    const because = lastError === undefined ? "" : `: ${headline(lastError).replace(/\.+$/, "")}`
    const what = reason === "cancelled" ? "was cancelled" : `is dead (${reason})`
    super("JOB_DEAD", `Job ${id} ${what}${tried}${because}. ${remedy}`)
  }
}

/** The job was not done before the timeout. It is still queued or running. */
export class ResultTimeoutError extends ShiftError {
  override readonly name = "ResultTimeoutError"
  constructor(
    readonly id: string,
    readonly timeout: number,
    /** What the job waits for. Absent if that could not be read. */
    readonly why: WhyView | undefined
  ) {
    const until = why?.until === undefined ? "" : ` The wait ends at ${why.until.toISOString()}.`
    const detail =
      why === undefined
        ? "It is still queued or running. Call result() again, or use a longer timeout."
        : `${why.detail}${until}`
    super("RESULT_TIMEOUT", `Job ${id} was not done within ${format(Duration.millis(timeout))}. ${detail}`)
  }
}

/** What the handler returned does not pass the job's result validator. */
export class InvalidResultError extends ShiftError {
  override readonly name = "InvalidResultError"
  constructor(
    readonly id: string,
    readonly issues: ReadonlyArray<Issue>
  ) {
    super("INVALID_RESULT", `The result of job ${id} is invalid: ${issuesText("result", issues)}.`)
  }
}

/** A step of a workflow failed in its last attempt. `message` is that of the error it threw. */
export class StepFailedError extends ShiftError {
  override readonly name = "StepFailedError"
  constructor(
    readonly step: string,
    /** The name of the error that the step threw. */
    readonly errorName: string,
    message: string
  ) {
    super("STEP_FAILED", message)
  }
}

/** The code of a step called another step. It is not retried: the call fails every time. */
export class NestedStepError extends ShiftError {
  override readonly name = "NestedStepError"
  constructor(
    /** The step whose code made the call. */
    readonly step: string,
    readonly inner: string
  ) {
    super(
      "NESTED_STEP",
      `a step cannot start another step: step "${step}" called "${inner}". Move the call out of the code of "${step}".`
    )
  }
}

/** Children of a workflow failed. All of them have ended. */
export class ChildrenFailedError extends ShiftError {
  override readonly name = "ChildrenFailedError"
  constructor(
    readonly step: string,
    readonly failures: ReadonlyArray<{ readonly position: number; readonly error: string }>,
    message: string
  ) {
    super("CHILDREN_FAILED", message)
  }
}

/** There is no execution with this key, or it was deleted after its retention. */
export class ExecutionNotFoundError extends ShiftError {
  override readonly name = "ExecutionNotFoundError"
  constructor(
    readonly execution: string,
    message: string
  ) {
    super("EXECUTION_NOT_FOUND", message)
  }
}

/** The schedule is invalid. Nothing was written. */
export class InvalidScheduleError extends ShiftError {
  override readonly name = "InvalidScheduleError"
  constructor(
    readonly schedule: string,
    readonly field: string,
    readonly reason: string,
    message: string
  ) {
    super("INVALID_SCHEDULE", message)
  }
}

/** No worker has declared a queue of this name. */
export class QueueNotFoundError extends ShiftError {
  override readonly name = "QueueNotFoundError"
  constructor(
    readonly queue: string,
    message: string
  ) {
    super("QUEUE_NOT_FOUND", message)
  }
}

/** There is no schedule of this name. */
export class ScheduleNotFoundError extends ShiftError {
  override readonly name = "ScheduleNotFoundError"
  constructor(
    readonly schedule: string,
    message: string
  ) {
    super("SCHEDULE_NOT_FOUND", message)
  }
}

/** The schedule has `overlap: "skip"`, and its previous job has not ended. */
export class ScheduleBusyError extends ShiftError {
  override readonly name = "ScheduleBusyError"
  constructor(
    readonly schedule: string,
    readonly job: string,
    message: string
  ) {
    super("SCHEDULE_BUSY", message)
  }
}

/** There is no batch with this id, or it is closed because all its jobs have ended. */
export class BatchError extends ShiftError {
  override readonly name = "BatchError"
  constructor(
    code: "BATCH_NOT_FOUND" | "BATCH_CLOSED",
    readonly batch: string,
    message: string
  ) {
    super(code, message)
  }
}

/** `tx` is not a transaction of a supported library, or the library could not run the statement: `cause` is its error. */
export class TransactionError extends ShiftError {
  override readonly name = "TransactionError"
  constructor(message: string, cause?: unknown) {
    super("TRANSACTION", message, cause)
  }
}

/** The database could not be reached, is not supported, or rejected a statement. */
export class DatabaseError extends ShiftError {
  override readonly name = "DatabaseError"
  constructor(
    code: "DATABASE_UNAVAILABLE" | "DATABASE_REFUSED",
    message: string,
    readonly sqlState: string | undefined
  ) {
    super(code, message)
  }
  /** Whether the same call may succeed later. */
  get retryable(): boolean {
    return this.code === "DATABASE_UNAVAILABLE"
  }
}

/** The process cannot start because of its settings, its schema or its queues. */
export class StartError extends ShiftError {
  override readonly name = "StartError"
  constructor(message: string) {
    super("START", message)
  }
}

/** The shift was closed. */
export class ClosedError extends ShiftError {
  override readonly name = "ClosedError"
  constructor() {
    super("CLOSED", "This shift is closed. Call connect() again.")
  }
}

/** Fields of the internal errors below. */
interface Fields {
  readonly field: string
  readonly reason: string
  readonly index: number
  readonly id: string
  readonly queue: string
  readonly cap: number
  readonly state: State
  readonly allowed: ReadonlyArray<State>
  readonly holder: string
  readonly name: string
  readonly job: string
  readonly execution: string
  readonly step: string
  readonly error: unknown
  readonly sqlState: string | undefined
}

const queueAdvice = "Check the name, start a worker that serves it, or create it with queues.change."

/** Error classes by the tag of the internal error. */
const classes: Readonly<Record<string, (fields: Fields, message: string) => ShiftError>> = {
  InvalidJob: ({ field, index, reason }, message) => new InvalidJobError(field, reason, index, message),
  JobIdTaken: ({ id }, message) => new JobIdTakenError(id, message),
  QueueFull: ({ cap, queue }, message) => new QueueFullError(queue, cap, message),
  JobNotFound: ({ id }, message) => new JobNotFoundError(id, message),
  ExecutionNotFound: ({ execution }, message) => new ExecutionNotFoundError(execution, message),
  StepNotFound: ({ step }, message) => new InvalidOptionError(step, message),
  ExecutionExists: (_, message) => new InvalidOptionError("as", message),
  InvalidStep: ({ step }, message) => new InvalidOptionError(step, message),
  JobNotInState: ({ allowed, id, state }, message) => new JobStateError(id, state, allowed, message),
  DedupeKeyHeld: ({ holder, id }, message) => new DedupeKeyHeldError(id, holder, message),
  QueueNotFound: ({ name }) => new QueueNotFoundError(name, `There is no queue "${name}". ${queueAdvice}`),
  InvalidSetting: ({ field }, message) => new InvalidOptionError(field, message),
  InvalidSchedule: ({ field, name, reason }, message) => new InvalidScheduleError(name, field, reason, message),
  ScheduleNotFound: ({ name }, message) => new ScheduleNotFoundError(name, message),
  PreviousRunActive: ({ job, name }, message) => new ScheduleBusyError(name, job, message),
  InvalidBatch: ({ field }, message) => new InvalidOptionError(field, message),
  BatchNotFound: ({ id }, message) => new BatchError("BATCH_NOT_FOUND", id, message),
  BatchClosed: ({ id }, message) => new BatchError("BATCH_CLOSED", id, message),
  OuterTransactionFailed: ({ error }, message) =>
    error instanceof TransactionError ? error : new TransactionError(message, error),
  DatabaseUnavailable: ({ sqlState }, message) => new DatabaseError("DATABASE_UNAVAILABLE", message, sqlState),
  DatabaseUnreachable: (_, message) => new DatabaseError("DATABASE_UNAVAILABLE", message, undefined),
  DatabaseConflict: ({ sqlState }, message) => new DatabaseError("DATABASE_REFUSED", message, sqlState),
  DatabaseFault: ({ sqlState }, message) => new DatabaseError("DATABASE_REFUSED", message, sqlState),
  DatabaseRejected: (_, message) => new DatabaseError("DATABASE_REFUSED", message, undefined)
}

/** Converts a failure of the services into a ShiftError. */
export const fromCause = (cause: Cause.Cause<unknown>): ShiftError => {
  if (Cause.isInterruptedOnly(cause)) return new ClosedError()
  const error = Cause.squash(cause)
  if (error instanceof ShiftError) return error
  const message = error instanceof Error && error.message !== "" ? error.message : String(error)
  const make = Predicate.hasProperty(error, "_tag") ? classes[String(error._tag)] : undefined
  if (make !== undefined) return make(error as unknown as Fields, message)
  // Other tagged errors prevent the start of a process; anything else is a bug, or a mistake in a test.
  return Predicate.hasProperty(error, "_tag") && !Cause.isRuntimeException(error)
    ? new StartError(message)
    : new ShiftError("UNEXPECTED", message, error)
}

import { Predicate } from "effect"
import { type Issue, issuesText } from "../core/Issues.js"
import type { DeadReason, State } from "../core/StoredJob.js"
import type { WhyView } from "./JobView.js"

// Errors that promises reject with: plain classes, so that programs without Effect never see its values.

/** Marks the errors of all copies of this module. */
const mark = Symbol.for("nightshift/client/ShiftError")

/** Base class of the client's errors. Test `code`, which is stable; the message may change. */
export class ShiftError extends Error {
  override readonly name: string = "ShiftError"
  /** Stable code of the error, such as `QUEUE_FULL`. Test this instead of the message. */
  readonly code: string

  constructor(code: string, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
  }
}

Object.defineProperty(ShiftError.prototype, mark, { value: true })

// `serve --app` runs handlers with its own copy of this module. An error that a handler catches is then of the class with the same
// name there, and must be an instance of this one.
Object.defineProperty(ShiftError, Symbol.hasInstance, {
  value: function (this: typeof ShiftError, value: unknown): boolean {
    if (Function.prototype[Symbol.hasInstance].call(this, value)) return true
    return Predicate.hasProperty(value, mark) && (this === ShiftError || (value as unknown as Error).name === this.name)
  }
})

/** The base of a class of errors with these fields. @internal */
export const errorClass = <const Name extends string>(name: Name, code: string) =>
  class extends ShiftError {
    override readonly name = name
    constructor(fields: object, message: string) {
      super(code, message)
      Object.assign(this, fields)
    }
  } as new <Fields extends object>(
    fields: Fields,
    message: string
  ) => ShiftError & { readonly name: Name } & Fields

/** The payload does not pass the job's validator. Nothing was stored. */
export class InvalidPayloadError extends ShiftError {
  override readonly name = "InvalidPayloadError"
  constructor(
    /** Name of the job's kind. */
    readonly kind: string,
    /** What the validator says, one entry per problem. */
    readonly issues: ReadonlyArray<Issue>,
    /** Index of the payload in `enqueueMany`; 0 for a single job. */
    readonly index: number,
    message: string
  ) {
    super("INVALID_PAYLOAD", message)
  }
}

/** An option or a limit was violated. Nothing was stored. */
export class InvalidJobError extends errorClass("InvalidJobError", "INVALID_JOB")<{
  /** Name of the invalid field, such as `priority` or `dedupe.key`. */
  readonly field: string
  /** What is wrong with the field, as the end of a sentence: `must not be negative`. */
  readonly reason: string
  /** Index of the job in `enqueueMany` or a batch; 0 for a single job. */
  readonly index: number
}> {}

/** An argument of a client function is invalid: an option, a duration, a date. */
export class InvalidOptionError extends ShiftError {
  override readonly name = "InvalidOptionError"
  constructor(
    /** Name of the invalid option, such as `timeout` or `dedupe.scope`. */
    readonly option: string,
    message: string
  ) {
    super("INVALID_OPTION", message)
  }
}

/** A job with this id exists and has different content. */
export class JobIdTakenError extends errorClass("JobIdTakenError", "JOB_ID_TAKEN")<{
  /** Id that another job already has. */
  readonly id: string
}> {}

/** The queue has reached its depth cap. */
export class QueueFullError extends errorClass("QueueFullError", "QUEUE_FULL")<{
  /** Queue that accepts no more jobs until some have started or the cap is raised. */
  readonly queue: string
  /** Maximum number of waiting jobs. */
  readonly cap: number
}> {}

/** There is no job with this id: it was deleted, or its transaction was rolled back or is not committed yet. */
export class JobNotFoundError extends errorClass("JobNotFoundError", "JOB_NOT_FOUND")<{
  /** Id that was looked up. */
  readonly id: string
}> {}

/** The action is not possible in the job's current state. */
export class JobStateError extends errorClass("JobStateError", "JOB_STATE")<{
  /** Id of the job, which is unchanged. */
  readonly id: string
  /** State of the job when the action was refused. */
  readonly state: State
  /** States in which the action is possible. */
  readonly allowed: ReadonlyArray<State>
}> {}

/** Another job holds this job's dedupe key, so it cannot become active again. */
export class DedupeKeyHeldError extends errorClass("DedupeKeyHeldError", "DEDUPE_KEY_HELD")<{
  /** Job that should become active again. */
  readonly id: string
  /** Job that holds the dedupe key. */
  readonly holder: string
}> {}

/** The job whose result was awaited is dead. */
export class JobDeadError extends errorClass("JobDeadError", "JOB_DEAD")<{
  /** Id that was awaited. Requeue it to run the job again. */
  readonly id: string
  /** Why the job is dead, such as `exhausted` after its last attempt. */
  readonly reason: DeadReason
  /** Attempts that were used. */
  readonly attempt: number
  /** Message of the last error. Undefined if no attempt failed. */
  readonly lastError: string | undefined
  /** Where the last error was thrown, and its causes. */
  readonly lastErrorStack: string | undefined
}> {}

/**
 * The job whose result was awaited was cancelled. Not a JobDeadError: a cancelled job did not fail, and code that reports or
 * compensates failures must not run for it.
 */
export class JobCancelledError extends errorClass("JobCancelledError", "JOB_CANCELLED")<{
  /** Id that was awaited. Requeue it to run the job again. */
  readonly id: string
  /** Attempts that were used. */
  readonly attempt: number
}> {}

/** The job was not done before the timeout. It is still queued or running. */
export class ResultTimeoutError extends errorClass("ResultTimeoutError", "RESULT_TIMEOUT")<{
  /** Id of the job, which is still queued or running. */
  readonly id: string
  /** How long the call waited, in milliseconds. */
  readonly timeout: number
  /** What the job waits for. Absent if that could not be read. */
  readonly why: WhyView | undefined
}> {}

/** The search took too long and was cancelled. Narrow the filter: fewer states, one queue, a shorter time range. */
export class SearchTooSlowError extends errorClass("SearchTooSlowError", "SEARCH_TOO_SLOW")<{
  /** The limit that it exceeded. */
  readonly seconds: number
}> {}

/** An action on many jobs failed, or an operator stopped it, before it reached the last job. What it changed stays changed. */
export class OperationStoppedError extends errorClass("OperationStoppedError", "OPERATION_STOPPED")<{
  /** The operation's id. */
  readonly operation: string
  /** The number of jobs that it changed. */
  readonly done: number
  /** The number of jobs that it could not change, by reason. */
  readonly skipped: Readonly<Record<string, number>>
}> {}

/** What the handler returned does not pass the job's result validator. */
export class InvalidResultError extends ShiftError {
  override readonly name = "InvalidResultError"
  constructor(
    /** Id of the job, which is done. */
    readonly id: string,
    /** What the validator says, one entry per problem. */
    readonly issues: ReadonlyArray<Issue>
  ) {
    super("INVALID_RESULT", `The result of job ${id} is invalid: ${issuesText("result", issues)}.`)
  }
}

/** The schedule is invalid. Nothing was written. */
export class InvalidScheduleError extends errorClass("InvalidScheduleError", "INVALID_SCHEDULE")<{
  /** Schedule that was declared or changed. */
  readonly schedule: string
  /** Name of the invalid field, such as `cron` or `timezone`. */
  readonly field: string
  /** What is wrong with the field, as the end of a sentence. */
  readonly reason: string
}> {}

/** No worker has declared a queue of this name. */
export class QueueNotFoundError extends errorClass("QueueNotFoundError", "QUEUE_NOT_FOUND")<{
  /** Name that was looked up. */
  readonly queue: string
}> {}

/** There is no schedule of this name. */
export class ScheduleNotFoundError extends errorClass("ScheduleNotFoundError", "SCHEDULE_NOT_FOUND")<{
  /** Name that was looked up. */
  readonly schedule: string
}> {}

/** The schedule has `overlap: "skip"`, and its previous job has not ended. */
export class ScheduleBusyError extends errorClass("ScheduleBusyError", "SCHEDULE_BUSY")<{
  /** Schedule that was triggered. */
  readonly schedule: string
  /** Id of the job that has not ended. */
  readonly job: string
}> {}

/** There is no batch with this id, or it is closed because all its jobs have ended. */
export class BatchError extends ShiftError {
  override readonly name = "BatchError"
  constructor(
    code: "BATCH_NOT_FOUND" | "BATCH_CLOSED",
    /** Id that was passed to the call. */
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
    /** SQLSTATE of PostgreSQL, such as `23505`. Undefined if the server was not reached. */
    readonly sqlState: string | undefined
  ) {
    super(code, message)
  }
  /** Whether the same call may succeed later. */
  get retryable(): boolean {
    return this.code === "DATABASE_UNAVAILABLE"
  }
}

/** A cell of the fleet cannot be reached. Only its own queues are affected, and the same call may succeed later. */
export class CellUnavailableError extends errorClass("CellUnavailableError", "CELL_UNAVAILABLE")<{
  /** Name of the cell. */
  readonly cell: string
  /** Always true, as for an unavailable database. */
  readonly retryable: true
}> {}

/** The process cannot start because of its settings, its schema or its queues. */
export class StartError extends ShiftError {
  override readonly name = "StartError"
  constructor(message: string) {
    super("START", message)
  }
}

/** The call came after `close()` of its shift. Call `connect()` again. */
export class ClosedError extends ShiftError {
  override readonly name = "ClosedError"
  constructor() {
    super("CLOSED", "This shift is closed. Call connect() again.")
  }
}

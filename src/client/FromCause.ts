import { Cause, ConfigError, Predicate } from "effect"
import { codeOf, type ExpectedError, isExpected } from "../core/ExpectedError.js"
import { problems } from "../core/Setting.js"
import type { DeadReason, State } from "../core/StoredJob.js"
import {
  AskFailedError,
  AskNotAnsweredError,
  AskTimeoutError,
  ExecutionEndedError,
  ExecutionNotFoundError,
  SignalsFullError,
  StreamFailedError,
  StreamNotFoundError
} from "./ExecutionErrors.js"
import type { WhyView } from "./JobView.js"
import {
  BatchError,
  CellUnavailableError,
  ClosedError,
  DatabaseError,
  DedupeKeyHeldError,
  InvalidJobError,
  InvalidOptionError,
  InvalidScheduleError,
  JobCancelledError,
  JobDeadError,
  JobIdTakenError,
  JobNotFoundError,
  JobStateError,
  QueueFullError,
  QueueNotFoundError,
  ResultTimeoutError,
  ScheduleBusyError,
  ScheduleNotFoundError,
  SearchTooSlowError,
  ShiftError,
  StartError,
  TransactionError
} from "./ShiftErrors.js"

/** Fields of the internal errors with the codes below. */
interface Fields extends Pick<ExpectedError, "answer"> {
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
  readonly stream: string
  readonly step: string | undefined
  readonly error: unknown
  readonly attempt: number
  readonly lastError: string | undefined
  readonly lastErrorStack: string | undefined
  readonly timeout: number
  readonly seconds: number
  readonly why: WhyView | undefined
  readonly sqlState: string | undefined
  readonly cell: string
}

const queueAdvice = "Check the name, start a worker that serves it, or create it with queues.change."

const databaseError =
  (code: "DATABASE_UNAVAILABLE" | "DATABASE_REFUSED") =>
  ({ sqlState }: Fields, message: string) =>
    new DatabaseError(code, message, sqlState)

/** Makes an error from the internal one with this code. */
const classes: Readonly<Record<string, (fields: Fields, message: string) => ShiftError>> = {
  INVALID_JOB: ({ field, index, reason }, message) => new InvalidJobError({ field, reason, index }, message),
  INVALID_OPTION: ({ answer, field, step }, message) =>
    new InvalidOptionError(step ?? field ?? answer.field ?? "", message),
  FILTER_REFUSED: ({ field }, message) => new InvalidOptionError(field, message),
  BAD_CURSOR: (_, message) => new InvalidOptionError("cursor", message),
  SEARCH_TOO_SLOW: ({ seconds }, message) => new SearchTooSlowError({ seconds }, message),
  JOB_ID_TAKEN: ({ id }, message) => new JobIdTakenError({ id }, message),
  QUEUE_FULL: ({ cap, queue }, message) => new QueueFullError({ queue, cap }, message),
  JOB_NOT_FOUND: ({ id }, message) => new JobNotFoundError({ id }, message),
  EXECUTION_NOT_FOUND: ({ execution }, message) => new ExecutionNotFoundError({ execution }, message),
  STREAM_NOT_FOUND: ({ execution, stream }, message) => new StreamNotFoundError({ execution, stream }, message),
  STREAM_FAILED: ({ execution, state, stream }, message) =>
    new StreamFailedError({ execution, stream, state: state as never }, message),
  EXECUTION_ENDED: ({ execution, state }, message) => new ExecutionEndedError({ execution, state }, message),
  SIGNALS_FULL: ({ execution, name }, message) => new SignalsFullError({ execution, signal: name }, message),
  ASK_FAILED: ({ error, execution, name, reason }, message) =>
    new AskFailedError({ execution, ask: name, error: String(error), reason }, message),
  ASK_NOT_ANSWERED: ({ execution, name }, message) => new AskNotAnsweredError({ execution, ask: name }, message),
  ASK_TIMED_OUT: ({ execution, id, name, timeout }, message) =>
    new AskTimeoutError({ execution, ask: name, id, timeout }, message),
  JOB_STATE: ({ allowed, id, state }, message) => new JobStateError({ id, state, allowed }, message),
  DEDUPE_KEY_HELD: ({ holder, id }, message) => new DedupeKeyHeldError({ id, holder }, message),
  JOB_DEAD: ({ attempt, id, lastError, lastErrorStack, reason }, message) =>
    new JobDeadError({ id, reason: reason as DeadReason, attempt, lastError, lastErrorStack }, message),
  JOB_CANCELLED: ({ attempt, id }, message) => new JobCancelledError({ id, attempt }, message),
  RESULT_TIMEOUT: ({ id, timeout, why }, message) => new ResultTimeoutError({ id, timeout, why }, message),
  QUEUE_NOT_FOUND: ({ name }) => new QueueNotFoundError({ queue: name }, `There is no queue "${name}". ${queueAdvice}`),
  INVALID_SCHEDULE: ({ field, name, reason }, message) =>
    new InvalidScheduleError({ schedule: name, field, reason }, message),
  SCHEDULE_NOT_FOUND: ({ name }, message) => new ScheduleNotFoundError({ schedule: name }, message),
  SCHEDULE_BUSY: ({ job, name }, message) => new ScheduleBusyError({ schedule: name, job }, message),
  BATCH_NOT_FOUND: ({ id }, message) => new BatchError("BATCH_NOT_FOUND", id, message),
  BATCH_CLOSED: ({ id }, message) => new BatchError("BATCH_CLOSED", id, message),
  TRANSACTION: ({ error }, message) =>
    error instanceof TransactionError ? error : new TransactionError(message, error),
  CELL_UNAVAILABLE: ({ cell }, message) => new CellUnavailableError({ cell, retryable: true }, message),
  DATABASE_UNAVAILABLE: databaseError("DATABASE_UNAVAILABLE"),
  DATABASE_REFUSED: databaseError("DATABASE_REFUSED")
}

const messageOf = (error: unknown): string => {
  if (ConfigError.isConfigError(error)) return `${problems(error).join("; ")}.`
  return error instanceof Error && error.message !== "" ? error.message : String(error)
}

/** Converts a failure of the services into a ShiftError. @internal */
export const fromCause = (cause: Cause.Cause<unknown>): ShiftError => {
  if (Cause.isInterruptedOnly(cause)) return new ClosedError()
  const error = Cause.squash(cause)
  if (error instanceof ShiftError) return error
  const message = messageOf(error)
  const make = isExpected(error) ? classes[codeOf(error)] : undefined
  if (make !== undefined) return make(error as unknown as Fields, message)
  // Other tagged errors prevent the start of a process; anything else is a bug, or a mistake in a test.
  return Predicate.hasProperty(error, "_tag") && !Cause.isRuntimeException(error)
    ? new StartError(message)
    : new ShiftError("UNEXPECTED", message, error)
}

import type { Issue } from "../core/Issues.js"
import { errorClass, ShiftError } from "./ShiftErrors.js"

// Errors about executions of workflows, their steps, signals, asks and streams.

/** The value of a signal does not pass the validator that the workflow declares. Nothing was sent. */
export class InvalidSignalError extends errorClass("InvalidSignalError", "INVALID_SIGNAL")<{
  /** Name of the workflow. */
  readonly workflow: string
  /** Name of the signal. */
  readonly signal: string
  /** What the validator says, one entry per problem. */
  readonly issues: ReadonlyArray<Issue>
}> {}

/** The value or the answer of an ask does not pass the validator that the workflow declares. */
export class InvalidAskError extends errorClass("InvalidAskError", "INVALID_ASK")<{
  /** Name of the workflow. */
  readonly workflow: string
  /** Name of the ask. */
  readonly ask: string
  /** What the validator says, one entry per problem. */
  readonly issues: ReadonlyArray<Issue>
}> {}

/** The handler of an ask threw an error, or refused the value. The execution goes on. */
export class AskFailedError extends errorClass("AskFailedError", "ASK_FAILED")<{
  /** Id of the execution. */
  readonly execution: string
  /** Name of the ask. */
  readonly ask: string
  /** Name of the error that the handler threw. */
  readonly error: string
  /** Message of the error that the handler threw. */
  readonly reason: string
}> {}

/** The execution ended before it answered the ask. */
export class AskNotAnsweredError extends errorClass("AskNotAnsweredError", "ASK_NOT_ANSWERED")<{
  /** Id of the execution. */
  readonly execution: string
  /** Name of the ask. */
  readonly ask: string
}> {}

/** The execution did not answer the ask in time. The ask is kept, and may be answered later. */
export class AskTimeoutError extends errorClass("AskTimeoutError", "ASK_TIMED_OUT")<{
  /** Id of the execution. */
  readonly execution: string
  /** Name of the ask. */
  readonly ask: string
  /** Id of the ask: ask again with it to wait for the same answer. */
  readonly id: string
  /** How long the call waited, in milliseconds. */
  readonly timeout: number
}> {}

/** The execution has ended, so it answers no asks. */
export class ExecutionEndedError extends errorClass("ExecutionEndedError", "EXECUTION_ENDED")<{
  /** Id of the execution. */
  readonly execution: string
  /** Its state: `done`, `failed` or `cancelled`. */
  readonly state: string
}> {}

/** A signal has as many values as an execution may receive under one name. Nothing was sent. */
export class SignalsFullError extends errorClass("SignalsFullError", "SIGNALS_FULL")<{
  /** Id of the execution. */
  readonly execution: string
  /** Name of the signal. */
  readonly signal: string
}> {}

/** A step of a workflow failed in its last attempt. `message` is that of the error it threw. */
export class StepFailedError extends ShiftError {
  override readonly name = "StepFailedError"
  constructor(
    /** Step that failed, as it was named in the workflow. */
    readonly step: string,
    /** `name` of the error that the code threw, such as `TypeError`. */
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
    /** Step that was called inside of it. */
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
    /** Name of the step that started the children. */
    readonly step: string,
    /** One entry for each child that did not succeed. */
    readonly failures: ReadonlyArray<{
      /** Index of the child among the items of the step, from 0. */
      readonly position: number
      /** Message of the child's last error. */
      readonly error: string
    }>,
    message: string
  ) {
    super("CHILDREN_FAILED", message)
  }
}

/** There is no execution with this key, or it was deleted after its retention. */
export class ExecutionNotFoundError extends errorClass("ExecutionNotFoundError", "EXECUTION_NOT_FOUND")<{
  /** Id that was looked up: the workflow's name, a slash and the key. */
  readonly execution: string
}> {}

/** The execution has ended without a stream of this name, which is the name of a step. */
export class StreamNotFoundError extends errorClass("StreamNotFoundError", "STREAM_NOT_FOUND")<{
  /** Id of the execution. */
  readonly execution: string
  /** Name of the stream that was looked up. */
  readonly stream: string
}> {}

/** The stream ended before its last chunk: its step failed, or the execution ended before the step. */
export class StreamFailedError extends errorClass("StreamFailedError", "STREAM_FAILED")<{
  /** Id of the execution. */
  readonly execution: string
  /** Name of the stream. */
  readonly stream: string
  /** `failed`: the step failed. `interrupted`: the execution ended before the step, for example because it was cancelled. */
  readonly state: "failed" | "interrupted"
}> {}

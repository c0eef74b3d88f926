import { Schema } from "effect"
import { Expected } from "../../core/ExpectedError.js"
import { limits } from "../../core/StoredJob.js"

/** The run no longer holds the lease of its execution: another pod may be running it. Nothing was written. */
export class LeaseLost extends Schema.TaggedError<LeaseLost>()("LeaseLost", {
  /** Id of the execution's job. */
  id: Schema.String
}) {
  override get message(): string {
    return `This run of job ${this.id} lost its lease, so nothing was recorded.`
  }
}

/** No execution has this id: it was never started, its retention expired, or the id is wrong. */
export class ExecutionNotFound extends Expected<ExecutionNotFound>(404)("ExecutionNotFound", {
  /** Id that was looked up: the workflow's name, a slash and the key. */
  execution: Schema.String
}) {
  override get message(): string {
    const hint = this.execution.includes("/") ? "" : " An id consists of the workflow's name, a slash and the key."
    return `There is no workflow execution "${this.execution}". It was never started or its retention expired, or the id is wrong.${hint}`
  }
}

/** The kind has plain jobs, no executions. */
export class NotAWorkflow extends Expected<NotAWorkflow>(422, { field: "workflow" })("NotAWorkflow", {
  kind: Schema.String
}) {
  override get message(): string {
    return `"${this.kind}" is not a workflow: its jobs are plain jobs. Enqueue it as a job instead.`
  }
}

/** The journal of the execution has no step of this name. */
export class StepNotFound extends Expected<StepNotFound>(404, { code: "INVALID_OPTION", field: "step" })(
  "StepNotFound",
  {
    /** Id of the execution whose journal was searched. */
    execution: Schema.String,
    /** Name that was looked up. */
    step: Schema.String,
    /** Names of the steps that the journal has. */
    known: Schema.Array(Schema.String)
  }
) {
  override get message(): string {
    const names = this.known.length === 0 ? "It has no steps." : `Its steps: ${this.known.join(", ")}.`
    return `Execution "${this.execution}" has no step "${this.step}". ${names}`
  }
}

/** The execution has ended without a stream of this name. */
export class StreamNotFound extends Expected<StreamNotFound>(404)("StreamNotFound", {
  /** Id of the execution. */
  execution: Schema.String,
  /** Name that was looked up. */
  stream: Schema.String
}) {
  override get message(): string {
    return `Execution "${this.execution}" has ended without a stream "${this.stream}". Check its name: a stream has the name of its step.`
  }
}

/** The stream ended before its last chunk: its step failed, or the execution ended before the step. */
export class StreamFailed extends Expected<StreamFailed>(409)("StreamFailed", {
  /** Id of the execution. */
  execution: Schema.String,
  /** Name of the stream. */
  stream: Schema.String,
  /** `failed`: the step failed. `interrupted`: the execution ended before the step. */
  state: Schema.Literal("failed", "interrupted"),
  /** Message of the error that the step failed with. */
  error: Schema.optional(Schema.String)
}) {
  override get message(): string {
    const why =
      this.state === "failed" ? `its step failed: ${this.error ?? "no message"}` : "the execution ended before its step"
    return `Stream "${this.stream}" of execution "${this.execution}" is incomplete: ${why}.`
  }
}

/** The id of a new execution is taken. */
export class ExecutionExists extends Expected<ExecutionExists>(409, { code: "INVALID_OPTION", field: "as" })(
  "ExecutionExists",
  {
    /** Id that is taken. */
    execution: Schema.String
  }
) {
  override get message(): string {
    return `Execution "${this.execution}" already exists. Fork under another id.`
  }
}

/** The result of a step, a signal or a name cannot be stored. */
export class InvalidStep extends Expected<InvalidStep>(400, { code: "INVALID_OPTION", exit: 2 })("InvalidStep", {
  /** Name of the step or signal. */
  step: Schema.String,
  /** What is wrong with it, as the end of a sentence. */
  reason: Schema.String
}) {
  override get message(): string {
    return `"${this.step}" ${this.reason}.`
  }
}

/** A tag, or their number, is invalid. Nothing was changed. */
export class InvalidTags extends Expected<InvalidTags>(400, { code: "INVALID_OPTION", field: "tags" })("InvalidTags", {
  /** What is wrong with the tags, as a sentence without its full stop. */
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.reason}.`
  }
}

/** The signal has as many values as an execution may receive under one name. Nothing was stored. */
export class SignalsFull extends Expected<SignalsFull>(409)("SignalsFull", {
  /** Id of the execution. */
  execution: Schema.String,
  /** What the caller passed to `run.signal`, and the code to `step.next`. */
  name: Schema.String
}) {
  override get message(): string {
    return `The signal "${this.name}" of execution "${this.execution}" has no room for this value: at most ${limits.signalValues} values, of ${limits.signalBytes / 1_048_576} MiB together. Let the execution continue as a new one with step.continueAs, or send values under another name.`
  }
}

/** The execution has ended, so it answers no asks. */
export class ExecutionEnded extends Expected<ExecutionEnded>(409)("ExecutionEnded", {
  /** Id of the execution. */
  execution: Schema.String,
  /** Its state: `done`, `failed` or `cancelled`. */
  state: Schema.String
}) {
  override get message(): string {
    const advice = this.state === "done" ? "" : " Retry the execution first, or start a new one."
    return `Execution "${this.execution}" is ${this.state}: only an execution that has not ended answers asks.${advice}`
  }
}

/** The handler of an ask threw an error. The execution goes on. */
export class AskFailed extends Expected<AskFailed>(422)("AskFailed", {
  /** Id of the execution. */
  execution: Schema.String,
  /** What the caller passed to `run.ask`, and the code to `step.answer`. */
  name: Schema.String,
  /** Name of the error that the handler threw. */
  error: Schema.String,
  /** Its message. */
  reason: Schema.String
}) {
  override get message(): string {
    return `Execution "${this.execution}" refused the ask "${this.name}": ${this.reason}`
  }
}

/** The execution ended before it answered. It has not received the ask, or its handler did not end. */
export class AskNotAnswered extends Expected<AskNotAnswered>(409)("AskNotAnswered", {
  /** Id of the execution. */
  execution: Schema.String,
  /** What the caller passed to `run.ask`, and the code to `step.answer`. */
  name: Schema.String
}) {
  override get message(): string {
    return `Execution "${this.execution}" ended before it answered the ask "${this.name}".`
  }
}

/** The execution did not answer in time. */
export class AskTimedOut extends Expected<AskTimedOut>(504)("AskTimedOut", {
  /** Id of the execution. */
  execution: Schema.String,
  /** What the caller passed to `run.ask`, and the code to `step.answer`. */
  name: Schema.String,
  /** Id of the ask: ask again with it to wait for the same answer. */
  id: Schema.String,
  /** How long the caller waited, in milliseconds. */
  timeout: Schema.Number
}) {
  override get message(): string {
    return `Execution "${this.execution}" did not answer the ask "${this.name}" within ${this.timeout} ms. It answers when its code has called step.answer("${this.name}", …) and a worker runs it. The ask is kept: ask again with the id "${this.id}" to wait for its answer.`
  }
}

/** A child already exists as a plain job, whose end would not be reported to the parent. */
export class ChildNotLinked extends Schema.TaggedError<ChildNotLinked>()("ChildNotLinked", {
  /** Id of the parent execution. */
  execution: Schema.String,
  /** Step that starts the child. */
  name: Schema.String
}) {
  override get message(): string {
    return `"${this.name}" of execution "${this.execution}" waits for a job that was already enqueued as a plain job. Use other keys for its children.`
  }
}

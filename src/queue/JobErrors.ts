import { Duration, Schema } from "effect"
import { format } from "../core/DurationText.js"
import { headline } from "../core/ErrorText.js"
import { type Answer, Expected } from "../core/ExpectedError.js"
import { isId, JobId } from "../core/Ids.js"
import { jobPrefix } from "../core/InvalidJob.js"
import { joinOr } from "../core/Spelling.js"
import { DeadReason, State } from "../core/StoredJob.js"
import type { DatabaseError } from "../database/DatabaseError.js"

/** No job has this id: it was deleted, or its transaction was rolled back or is not committed yet. */
export class JobNotFound extends Expected<JobNotFound>(404)("JobNotFound", {
  /** Id that was looked up. */
  id: Schema.String
}) {
  override get message(): string {
    return isId(this.id)
      ? `There is no job ${this.id}. It was deleted or its retention expired, the transaction that enqueued it was rolled back or is not committed yet, or the id is wrong.`
      : `There is no job ${JSON.stringify(this.id)}: a job id must be a UUID.`
  }
}

/** The action is not possible in the job's current state. */
export class JobNotInState extends Expected<JobNotInState>(409, { code: "JOB_STATE" })("JobNotInState", {
  /** Id of the job, which is unchanged. */
  id: JobId,
  /** Action that was refused, such as `cancel` or `requeue`. */
  act: Schema.String,
  /** State of the job when the action was refused. */
  state: State,
  /** States in which the action is possible. */
  allowed: Schema.Array(State),
  /** When the data of the job was erased, in epoch milliseconds. Undefined if it was not. */
  erasedAt: Schema.optional(Schema.Number),
  /** The queue that the job is leaving with `nightshift fleet move`. Undefined if it does not move. */
  movingFrom: Schema.optional(Schema.String)
}) {
  override get message(): string {
    if (this.movingFrom !== undefined && this.allowed.includes(this.state))
      return `Job ${this.id} moves between two cells, which may both have it: ${this.act} needs a job that does not move. Run \`nightshift fleet move ${this.movingFrom}\` first, or cancel the job.`
    if (typeof this.erasedAt === "number")
      return `Job ${this.id} cannot run again: its data was erased on ${new Date(this.erasedAt).toISOString().slice(0, 10)}. Store a new job.`
    return `Job ${this.id} is ${this.state}: ${this.act} needs a job that is ${joinOr(this.allowed)}.`
  }
}

/** The job cannot become active again while another job holds its dedupe key. */
export class DedupeKeyHeld extends Expected<DedupeKeyHeld>(409)("DedupeKeyHeld", {
  /** Job that should become active again. */
  id: JobId,
  /** Job that holds the dedupe key. */
  holder: JobId
}) {
  override get message(): string {
    return `Job ${this.id} cannot run again while job ${this.holder} holds its dedupe key. Wait until that job ends, or cancel it.`
  }
}

/** The action on this job cannot be undone. */
export class UndoRefused extends Expected<UndoRefused>(409)("UndoRefused", {
  id: Schema.String,
  /** `changed`: the job has changed since the action. `forgotten`: no record of the action exists. */
  why: Schema.Literal("changed", "forgotten")
}) {
  override get message(): string {
    return this.why === "changed"
      ? `Job ${this.id} has changed since the action, so it cannot be undone.`
      : `There is nothing to undo for job ${this.id}: the action was already undone, or it is more than an hour old.`
  }
}

/** A job with this id exists and has different content. No job of the request was stored. */
export class JobIdTaken extends Expected<JobIdTaken>(409)("JobIdTaken", {
  /** Index of the job in the request, starting at 0. */
  index: Schema.Int,
  /** Number of jobs in the request. [1] */
  jobs: Schema.optional(Schema.Int),
  /** Id that another job already has. */
  id: JobId
}) {
  override get message(): string {
    return `${jobPrefix(this)}id ${this.id} already belongs to a job with different content. Use another id.`
  }

  override get answer(): Answer {
    return { ...JobIdTaken.answer, field: `jobs[${this.index}].id` }
  }
}

/** The queue has reached its depth cap. No job of the request was stored. */
export class QueueFull extends Expected<QueueFull>(429, { headers: { "retry-after": "5" } })("QueueFull", {
  /** Queue that accepts no more jobs until some have started or the cap is raised. */
  queue: Schema.String,
  /** Maximum number of waiting jobs. */
  cap: Schema.Int
}) {
  override get message(): string {
    return `Queue "${this.queue}" is full: it has reached its depth cap of ${this.cap} waiting jobs. Retry later, or raise the depth cap.`
  }
}

const tried = (attempt: number) => (attempt === 0 ? "" : ` after ${attempt} ${attempt === 1 ? "attempt" : "attempts"}`)

/** The job whose result was awaited is dead. */
export class JobDead extends Expected<JobDead>(409)("JobDead", {
  /** Id that was awaited. Requeue it to run the job again. */
  id: Schema.String,
  /** Why the job is dead, such as `exhausted` after its last attempt. */
  reason: DeadReason,
  /** Attempts that were used. */
  attempt: Schema.Number,
  /** Message of the last error. Undefined if no attempt failed. */
  lastError: Schema.UndefinedOr(Schema.String),
  /** Where the last error was thrown, and its causes. */
  lastErrorStack: Schema.UndefinedOr(Schema.String),
  /** The id of the workflow execution, if the job is one. */
  execution: Schema.UndefinedOr(Schema.String)
}) {
  override get message(): string {
    const { attempt, execution, id, lastError, reason } = this
    const because = lastError === undefined ? "" : `: ${headline(lastError).replace(/\.+$/, "")}`
    const advice = execution === undefined ? "requeue it" : `retry the execution: shift.workflows.retry("${execution}")`
    return `Job ${id} is dead (${reason})${tried(attempt)}${because}. Fix the cause, then ${advice}.`
  }
}

/** The job whose result was awaited was cancelled. */
export class JobCancelled extends Expected<JobCancelled>(409)("JobCancelled", {
  /** Id that was awaited. Requeue it to run the job again. */
  id: Schema.String,
  /** Attempts that were used. */
  attempt: Schema.Number,
  /** The id of the workflow execution, if the job is one. */
  execution: Schema.UndefinedOr(Schema.String)
}) {
  override get message(): string {
    const { attempt, execution, id } = this
    const advice =
      execution === undefined ? "Requeue it" : `Retry the execution (shift.workflows.retry("${execution}"))`
    return `Job ${id} was cancelled${tried(attempt)}. ${advice} to run it again.`
  }
}

/** The job was not done before the timeout. It is still queued or running. */
export class ResultTimeout extends Expected<ResultTimeout>(408)("ResultTimeout", {
  /** Id of the job, which is still queued or running. */
  id: Schema.String,
  /** How long the call waited, in milliseconds. */
  timeout: Schema.Number,
  /** What the job waits for, if that was read. */
  why: Schema.UndefinedOr(
    Schema.Struct({ reason: Schema.String, detail: Schema.String, until: Schema.UndefinedOr(Schema.DateFromSelf) })
  )
}) {
  override get message(): string {
    const { id, timeout, why } = this
    const until = why?.until === undefined ? "" : ` The wait ends at ${why.until.toISOString()}.`
    const detail =
      why === undefined
        ? "It is still queued or running. Call result() again, or use a longer timeout."
        : `${why.detail}${until}`
    return `Job ${id} was not done within ${format(Duration.millis(timeout))}. ${detail}`
  }
}

/** How a caller skips the check of kind and payload. */
export const forceAdvice = 'store the job anyway with "force": true'

/** No process has registered a kind of this name. Start one with a handler for it, or check the spelling. */
export class UnknownKind extends Expected<UnknownKind>(422, { field: "kind", exit: 2 })("UnknownKind", {
  /** Name that no process has registered. */
  kind: Schema.String,
  /** A registered kind of a similar name. */
  near: Schema.optional(Schema.String)
}) {
  override get message(): string {
    return `No process has ever registered the kind "${this.kind}".${this.near === undefined ? "" : ` Did you mean ${this.near}?`} Start a process with a handler for it, or ${forceAdvice}.`
  }
}

/** The caller's database library could not run our statement in the caller's transaction. `error` is the library's. */
export class OuterTransactionFailed extends Expected<OuterTransactionFailed>(500, { code: "TRANSACTION" })(
  "OuterTransactionFailed",
  {
    error: Schema.Unknown
  }
) {
  override get message(): string {
    return `The transaction could not store the job: ${this.error instanceof Error ? this.error.message : String(this.error)}`
  }
}

/** Errors of storing valid jobs. */
export type StoreError = JobIdTaken | QueueFull | DatabaseError

import { Either } from "effect"
import { BatchId, JobId } from "../../core/Ids.js"
import { DeadReason, State } from "../../core/StoredJob.js"
import type { JobFilter } from "../../queue/search/JobFilter.js"
import * as Input from "../kit/Input.js"

export const batchId = Input.uuid(BatchId, "A batch id")
export const jobId = Input.uuid(JobId, "A job id")

/** The id of a job, or of a workflow execution, which has a slash: `order/A-17`. */
export const idOrExecution: Input.Value<string> = {
  ...jobId,
  read: (text) => (text.includes("/") ? Either.right(text) : jobId.read(text))
}

/** Options that select jobs, with the states that a command accepts. */
export const options = (states: ReadonlyArray<State> = State.literals) => ({
  queue: Input.repeated(Input.text, "Only jobs of this queue."),
  kind: Input.repeated(Input.text, "Only jobs of this kind."),
  state: Input.repeated(Input.choice(states), "Only jobs in this state."),
  deadReason: Input.repeated(Input.choice(DeadReason.literals), "Only dead jobs with this reason."),
  since: Input.optional(Input.instant, "Only jobs enqueued at or after this instant, as in 2026-01-31T09:00:00Z."),
  until: Input.optional(Input.instant, "Only jobs enqueued before this instant."),
  containing: Input.optional(Input.json, "Only jobs whose payload contains this JSON."),
  dedupe: Input.optional(Input.text, "Only jobs with this dedupe key."),
  text: Input.optional(Input.text, "Only jobs with this text in the last error."),
  shape: Input.optional(
    Input.text,
    "Only jobs with this error shape: the first line of the last error, with numbers and ids replaced by #."
  ),
  batch: Input.optional(batchId, "Only jobs of this batch.")
})

const unlessEmpty = <A>(values: ReadonlyArray<A>): ReadonlyArray<A> | undefined =>
  values.length === 0 ? undefined : values

/** Builds the filter; all options must match. */
export const filterOf = (given: Input.Given<ReturnType<typeof options>>): JobFilter => ({
  queue: unlessEmpty(given.queue),
  kind: unlessEmpty(given.kind),
  state: unlessEmpty(given.state),
  reason: unlessEmpty(given.deadReason),
  since: given.since,
  until: given.until,
  payload: given.containing,
  dedupe: given.dedupe,
  text: given.text,
  shape: given.shape,
  batch: given.batch
})

import { Either } from "effect"
import { BatchId, JobId } from "../../core/Ids.js"
import { DeadReason, State } from "../../core/StoredJob.js"
import { descriptions, type JobFilter } from "../../queue/search/JobFilter.js"
import * as Input from "../kit/Input.js"

export const batchId = Input.uuid(BatchId, "A batch id")
export const jobId = Input.uuid(JobId, "A job id")

/** The id of a job, or of a workflow execution, which has a slash: `order/A-17`. */
export const idOrExecution: Input.Value<string> = {
  ...jobId,
  read: (text) => (text.includes("/") ? Either.right(text) : jobId.read(text))
}

const only = (field: keyof JobFilter) =>
  `Only ${descriptions[field].charAt(0).toLowerCase()}${descriptions[field].slice(1)}`

/** Options that select jobs, with the states that a command accepts. */
export const options = (states: ReadonlyArray<State> = State.literals) => ({
  queue: Input.repeated(Input.text, only("queue")),
  kind: Input.repeated(Input.text, only("kind")),
  state: Input.repeated(Input.choice(states), only("state")),
  deadReason: Input.repeated(Input.choice(DeadReason.literals), only("reason")),
  since: Input.optional(Input.instant, `${only("since")} Example: 2026-01-31T09:00:00Z.`),
  until: Input.optional(Input.instant, only("until")),
  diedBefore: Input.optional(Input.instant, only("diedBefore")),
  containing: Input.optional(Input.jsonFilter, only("payload")),
  dedupe: Input.optional(Input.text, only("dedupe")),
  key: Input.optional(Input.text, only("key")),
  pod: Input.optional(Input.text, only("pod")),
  text: Input.optional(Input.text, only("text")),
  search: Input.optional(Input.text, only("search")),
  shape: Input.optional(Input.text, only("shape")),
  batch: Input.optional(batchId, only("batch"))
})

export const unlessEmpty = <A>(values: ReadonlyArray<A>): ReadonlyArray<A> | undefined =>
  values.length === 0 ? undefined : values

/** Builds the filter; all options must match. */
export const filterOf = (given: Input.Given<ReturnType<typeof options>>): JobFilter =>
  ({
    queue: unlessEmpty(given.queue),
    kind: unlessEmpty(given.kind),
    state: unlessEmpty(given.state),
    reason: unlessEmpty(given.deadReason),
    since: given.since,
    until: given.until,
    diedBefore: given.diedBefore,
    payload: given.containing,
    dedupe: given.dedupe,
    key: given.key,
    pod: given.pod,
    text: given.text,
    search: given.search,
    shape: given.shape,
    batch: given.batch
  }) satisfies Record<keyof JobFilter, unknown>

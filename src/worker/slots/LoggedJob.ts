import { inspect } from "node:util"
import { Effect } from "effect"
import type { ClaimedJob } from "../../queue/Queue.js"
import { jobAnnotation } from "../../telemetry/LogLine.js"
import * as Masking from "../../telemetry/Masking.js"

/** The fields of every log line about a job. */
const factsOf = ({ attempt, execution, id, kind, queue }: ClaimedJob) => ({
  id,
  kind,
  queue,
  attempt,
  ...(execution === undefined ? {} : { execution: execution.id })
})

/** Log lines of an effect are about this job. */
export const annotated = (
  job: LoggedJob | Readonly<{ id: string; queue: string | undefined } | { [Masking.dataOf]: unknown }>
) => Effect.annotateLogs(jobAnnotation, job)

/**
 * The log annotation of a slot. It looks up the current job when a line is written, because annotating per job costs
 * more than most jobs. As a consequence, a fiber that a handler leaves running logs with the fields of the slot's next
 * job.
 */
export class LoggedJob {
  readonly #slot: { readonly run: { readonly job: ClaimedJob } | undefined }

  constructor(slot: { readonly run: { readonly job: ClaimedJob } | undefined }) {
    this.#slot = slot
  }

  /** The annotation of lines about one job. */
  static of(job: ClaimedJob) {
    return new LoggedJob({ run: { job } })
  }

  toJSON() {
    return this.#slot.run === undefined ? null : factsOf(this.#slot.run.job)
  }

  /** For loggers that mask payload fields. */
  get [Masking.dataOf](): unknown {
    return this.#slot.run?.job.payload
  }

  /** For console output. */
  [inspect.custom]() {
    return this.toJSON()
  }
}

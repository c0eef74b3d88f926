import { inspect } from "node:util"
import type { ClaimedJob } from "../../queue/Queue.js"
import * as Masking from "../../telemetry/Masking.js"

/** What every log line about a job carries. */
export const factsOf = ({ attempt, id, kind, queue }: ClaimedJob) => ({ id, kind, queue, attempt })

/**
 * The job that a slot runs, as the slot's log lines carry it. It is looked up when a line is written: to annotate each job's
 * fiber anew costs more than most jobs do. So what a handler leaves running after its end speaks in the name of the next job.
 */
export class LoggedJob {
  readonly #slot: { readonly run: { readonly job: ClaimedJob } | undefined }

  constructor(slot: { readonly run: { readonly job: ClaimedJob } | undefined }) {
    this.#slot = slot
  }

  toJSON() {
    return this.#slot.run === undefined ? null : factsOf(this.#slot.run.job)
  }

  /** For loggers that hide fields of the payload. */
  get [Masking.dataOf](): unknown {
    return this.#slot.run?.job.payload
  }

  /** For terminals. */
  [inspect.custom]() {
    return this.toJSON()
  }
}

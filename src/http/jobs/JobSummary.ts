import { showable } from "../../core/Nesting.js"
import type { StoredJob } from "../../core/StoredJob.js"
import * as Instant from "../Instant.js"

/** What the audit keeps of a job: what acts change, and what tells which job it was. */
export const of = ({ attempt, deadReason, kind, lastError, priority, queue, runAt, state }: StoredJob) => ({
  kind,
  queue,
  state,
  attempt,
  priority,
  runAt: Instant.format(runAt),
  ...(deadReason === undefined ? {} : { deadReason }),
  ...(lastError === undefined ? {} : { lastError: lastError.slice(0, 200) })
})

/** The same where the payload changes or goes. */
export const withPayload = (job: StoredJob) => ({ ...of(job), payload: showable(job.payload) })

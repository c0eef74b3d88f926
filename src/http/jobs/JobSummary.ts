import { withoutTrace } from "../../core/ErrorText.js"
import * as Sealed from "../../core/Sealed.js"
import { showable } from "../../core/Storable.js"
import type { StoredJob } from "../../core/StoredJob.js"
import { subjectMeta, subjectOf } from "../../core/Subject.js"
import * as Instant from "../Instant.js"

/** A job as stored in the audit log: the fields that identify it and those that actions change. */
export const of = ({ attempt, reason, kind, lastError, meta, priority, queue, runAt, state }: StoredJob) => ({
  kind,
  queue,
  state,
  attempt,
  priority,
  runAt: Instant.format(runAt),
  // Erasure finds the entry by it, even if the job was deleted.
  ...subjectMeta(subjectOf(meta)),
  ...(reason === undefined ? {} : { reason }),
  ...(lastError === undefined ? {} : { lastError: withoutTrace(lastError).slice(0, 200) })
})

/** The summary for actions that change or delete the payload. */
export const withPayload = (job: StoredJob) => ({ ...of(job), payload: showable(Sealed.hidden(job).payload) })

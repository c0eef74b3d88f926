import { Effect, Schema } from "effect"
import { JobId } from "../../core/Ids.js"
import { JobNotFound } from "../../queue/JobErrors.js"

const decode = Schema.decode(JobId)

/** Parses the id in a path. A malformed id fails with `JobNotFound`. */
export const read = (text: string): Effect.Effect<JobId, JobNotFound> =>
  Effect.mapError(decode(text.toLowerCase()), () => new JobNotFound({ id: text.slice(0, 64) }))

import type { Effect } from "effect"
import type { JobId } from "../core/Ids.js"
import type { InvalidJob } from "../core/InvalidJob.js"
import type { DatabaseError } from "../database/DatabaseError.js"

/** What a handler sees of the job it runs. */
export interface JobContext {
  readonly id: JobId
  readonly kind: string
  readonly queue: string
  readonly key: string | undefined
  /** The number of this attempt, from 1. */
  readonly attempt: number
  readonly maxAttempts: number
  readonly meta: unknown
  /** Keeps a JSON value that says how far the work has come, for those who watch. */
  readonly progress: (value: unknown) => Effect.Effect<void, InvalidJob | DatabaseError>
}

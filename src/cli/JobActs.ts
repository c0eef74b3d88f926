import * as Args from "@effect/cli/Args"
import { Console, Effect } from "effect"
import type { JobId } from "../core/Ids.js"
import type { StoredJob } from "../core/Job.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import * as JobView from "../http/JobView.js"
import type { JobDesk } from "../queue/JobDesk.js"
import type { DedupeKeyHeld, JobNotFound, JobNotInState } from "../queue/JobErrors.js"
import * as CommonOptions from "./CommonOptions.js"
import * as JobIdArgument from "./JobIdArgument.js"
import { SomeFailed } from "./Misused.js"
import * as QueueLayer from "./QueueLayer.js"
import * as Running from "./Running.js"

/** What a command takes that does the same to several jobs. */
export const options = {
  ids: Args.atLeast(JobIdArgument.argument, 1),
  ...CommonOptions.database,
  json: CommonOptions.json
}

type Refusal = JobNotFound | JobNotInState | DedupeKeyHeld

interface Given {
  readonly ids: ReadonlyArray<JobId>
  readonly json: boolean
  readonly embedded: boolean
  readonly directory: Parameters<typeof CommonOptions.databaseFlags>[0]["directory"]
}

interface Outcome {
  readonly id: JobId
  readonly job: StoredJob | undefined
  readonly refusal: Refusal | undefined
}

const view = ({ id, job, refusal }: Outcome) => ({
  id,
  job: job === undefined ? null : JobView.of(job),
  error: refusal === undefined ? null : { tag: refusal._tag, message: refusal.message }
})

/** Does it to one after the other. A job that refuses does not stop the rest; a database that does not answer does. */
export const perform = (
  given: Given,
  act: (id: JobId) => Effect.Effect<StoredJob, Refusal | DatabaseError, JobDesk>,
  said: (job: StoredJob) => string
) =>
  Effect.gen(function* () {
    const outcomes = yield* Effect.forEach(given.ids, (id) => {
      const refused = (refusal: Refusal): Effect.Effect<Outcome> => Effect.succeed({ id, job: undefined, refusal })
      return act(id).pipe(
        Effect.tap((job) => (given.json ? Effect.void : Console.log(said(job)))),
        Effect.map((job): Outcome => ({ id, job, refusal: undefined })),
        Effect.catchTags({ JobNotFound: refused, JobNotInState: refused, DedupeKeyHeld: refused })
      )
    })
    if (given.json) yield* Console.log(JSON.stringify(outcomes.map(view), null, 2))
    const reasons = outcomes.flatMap(({ refusal }) => (refusal === undefined ? [] : [refusal.message]))
    if (reasons.length > 0) return yield* new SomeFailed({ reasons })
  }).pipe(Effect.provide(QueueLayer.layerForCommand), Running.configured(CommonOptions.databaseFlags(given)))

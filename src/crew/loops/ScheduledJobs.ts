import { DateTime, Effect, Schema } from "effect"
import { JobId } from "../../core/Ids.js"
import type { InvalidJob } from "../../core/InvalidJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import * as JobRequests from "../../queue/enqueue/JobRequests.js"
import type { NewJob } from "../../queue/enqueue/NewJob.js"
import type { JobIdTaken, QueueFull } from "../../queue/JobErrors.js"
import type { Kinds } from "../../queue/Kinds.js"
import { Queue } from "../../queue/Queue.js"
import { JobSearch } from "../../queue/search/JobSearch.js"
import type { StoredSchedule } from "../../schedule/StoredSchedule.js"

/** The job before is not over, and the schedule says that its runs must not overlap. */
export class PreviousRunActive extends Schema.TaggedError<PreviousRunActive>()("PreviousRunActive", {
  name: Schema.String,
  job: JobId
}) {
  override get message(): string {
    return `The last job of schedule "${this.name}" is not over (${this.job}), and its runs must not overlap. Wait for it, or cancel it.`
  }
}

export const iso = (millis: number): string => DateTime.formatIso(DateTime.unsafeMake(millis))

/** The job of the last fire that is still to run or running, where that keeps the next one from being stored. */
export const obstacle = (schedule: StoredSchedule): Effect.Effect<JobId | undefined, DatabaseError, JobSearch> =>
  Effect.gen(function* () {
    const { lastJobId, overlap } = schedule
    if (overlap === "allow" || lastJobId === undefined) return undefined
    const search = yield* JobSearch
    return yield* search.get(lastJobId).pipe(
      Effect.map(({ status }) => (status === "pending" || status === "running" ? lastJobId : undefined)),
      Effect.catchTag("JobNotFound", () => Effect.succeed(undefined))
    )
  })

type Extra = Pick<NewJob, "dedupe" | "meta">

/** Stores jobs of a schedule, each with what sets it apart, in the surrounding transaction. Routed as an API's would be. */
export const store = (
  schedule: StoredSchedule,
  extras: ReadonlyArray<Extra>
): Effect.Effect<ReadonlyArray<JobId>, InvalidJob | JobIdTaken | QueueFull | DatabaseError, Queue | Kinds> =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const { kind, maxAttempts, payload, queue: queueName } = schedule
    // Whether the kind is known was asked when the schedule was made: by now its pods may have come or gone.
    const [job] = yield* JobRequests.resolve([{ kind, payload, queue: queueName, maxAttempts }], { force: true }).pipe(
      Effect.catchTag("KindRefused", Effect.die)
    )
    if (job === undefined) return []
    const stored = yield* queue.enqueue(extras.map((extra) => ({ ...job, ...extra })))
    return stored.map(({ id }) => id)
  })

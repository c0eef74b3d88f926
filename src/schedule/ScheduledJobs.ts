import { Clock, DateTime, Effect, Schema } from "effect"
import { Expected } from "../core/ExpectedError.js"
import { JobId } from "../core/Ids.js"
import type { InvalidJob } from "../core/InvalidJob.js"
import { storableText } from "../core/Storable.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import * as JobRequests from "../queue/enqueue/JobRequests.js"
import type { JobIdTaken, QueueFull } from "../queue/JobErrors.js"
import type { Kinds } from "../queue/Kinds.js"
import type { NewJob } from "../queue/NewJob.js"
import { Queue } from "../queue/Queue.js"
import { JobSearch } from "../queue/search/JobSearch.js"
import { Transactions } from "../queue/Transactions.js"
import type { ScheduleNotFound } from "./ScheduleErrors.js"
import { Schedules } from "./Schedules.js"
import type { StoredSchedule } from "./StoredSchedule.js"
import { TickOutcome } from "./TickOutcome.js"

/** The previous job has not finished, and the schedule does not allow overlapping runs. */
export class PreviousRunActive extends Expected<PreviousRunActive>(409, { code: "SCHEDULE_BUSY" })(
  "PreviousRunActive",
  {
    /** Schedule that was triggered. */
    name: Schema.String,
    /** Id of the job that has not finished. */
    job: JobId
  }
) {
  override get message(): string {
    return `The previous job of schedule "${this.name}" has not finished (${this.job}), and its runs must not overlap. Wait for it, or cancel it.`
  }
}

export const iso = (millis: number): string => DateTime.formatIso(DateTime.unsafeMake(millis))

/** Returns the unfinished previous job, if the schedule does not allow overlapping runs. */
export const unfinishedRun = (schedule: StoredSchedule): Effect.Effect<JobId | undefined, DatabaseError, JobSearch> =>
  Effect.gen(function* () {
    const { lastJobId, overlap } = schedule
    if (overlap === "allow" || lastJobId === undefined) return undefined
    const search = yield* JobSearch
    return yield* search.get(lastJobId).pipe(
      Effect.map(({ finishedAt }) => (finishedAt === undefined ? lastJobId : undefined)),
      Effect.catchTag("JobNotFound", () => Effect.succeed(undefined))
    )
  })

type Extra = Pick<NewJob, "dedupe" | "meta">

/** Enqueues jobs of a schedule in the current transaction, one per given set of fields. Routes apply as for the API. */
export const store = (
  schedule: StoredSchedule,
  extras: ReadonlyArray<Extra>
): Effect.Effect<ReadonlyArray<JobId>, InvalidJob | JobIdTaken | QueueFull | DatabaseError, Queue | Kinds> =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const { kind, attempts, payload, queue: queueName } = schedule
    // `force`: the kind was checked when the schedule was created, and its pods may be down at the moment.
    const [job] = yield* JobRequests.resolveUntraced([{ kind, payload, queue: queueName, attempts }], {
      force: true
    }).pipe(Effect.catchTag("KindRefused", Effect.die))
    if (job === undefined) return []
    const stored = yield* queue.enqueue(extras.map((extra) => ({ ...job, ...extra })))
    return stored.map(({ id }) => id)
  })

/**
 * Enqueues a job of the schedule now, regardless of its next fire time and whether it is paused. Records who triggered
 * it. Returns the schedule and the job.
 */
export const trigger = (
  name: string,
  by = "code"
): Effect.Effect<
  StoredSchedule,
  ScheduleNotFound | PreviousRunActive | InvalidJob | JobIdTaken | QueueFull | DatabaseError,
  Schedules | Transactions | Queue | Kinds | JobSearch
> =>
  Effect.gen(function* () {
    const transactions = yield* Transactions
    const schedules = yield* Schedules
    return yield* transactions.run(
      Effect.gen(function* () {
        const schedule = yield* schedules.hold(name)
        const busy = yield* unfinishedRun(schedule)
        if (busy !== undefined) return yield* new PreviousRunActive({ name, job: busy })
        const now = yield* Clock.currentTimeMillis
        const meta = { schedule: name, triggeredAt: iso(now) }
        const [job] = yield* store(schedule, [{ meta }])
        if (job !== undefined)
          yield* schedules.note(name, [TickOutcome.Triggered({ at: now, job, by: storableText(by, 100) })])
        return yield* schedules.get(name)
      })
    )
  })

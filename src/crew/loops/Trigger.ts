import { Clock, Effect } from "effect"
import type { InvalidJob } from "../../core/InvalidJob.js"
import { storableText } from "../../core/Storable.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { JobIdTaken, QueueFull } from "../../queue/JobErrors.js"
import type { Kinds } from "../../queue/Kinds.js"
import type { Queue } from "../../queue/Queue.js"
import type { JobSearch } from "../../queue/search/JobSearch.js"
import { Transactions } from "../../queue/Transactions.js"
import type { ScheduleNotFound } from "../../schedule/ScheduleErrors.js"
import { Schedules } from "../../schedule/Schedules.js"
import type { StoredSchedule } from "../../schedule/StoredSchedule.js"
import { TickOutcome } from "../../schedule/TickOutcome.js"
import * as ScheduledJobs from "./ScheduledJobs.js"

/**
 * Enqueues a job of the schedule now, regardless of its next fire time and whether it is enabled. Records who triggered
 * it. Returns the schedule and the job.
 */
export const trigger = (
  name: string,
  by = "code"
): Effect.Effect<
  StoredSchedule,
  ScheduleNotFound | ScheduledJobs.PreviousRunActive | InvalidJob | JobIdTaken | QueueFull | DatabaseError,
  Schedules | Transactions | Queue | Kinds | JobSearch
> =>
  Effect.gen(function* () {
    const transactions = yield* Transactions
    const schedules = yield* Schedules
    return yield* transactions.run(
      Effect.gen(function* () {
        const schedule = yield* schedules.hold(name)
        const busy = yield* ScheduledJobs.obstacle(schedule)
        if (busy !== undefined) return yield* new ScheduledJobs.PreviousRunActive({ name, job: busy })
        const now = yield* Clock.currentTimeMillis
        const meta = { schedule: name, triggeredAt: ScheduledJobs.iso(now) }
        const [job] = yield* ScheduledJobs.store(schedule, [{ meta }])
        if (job !== undefined)
          yield* schedules.note(name, [TickOutcome.Triggered({ at: now, job, by: storableText(by, 100) })])
        return yield* schedules.get(name)
      })
    )
  })

import { Clock, Effect, Schema } from "effect"
import { Expected } from "../core/ExpectedError.js"
import { JobId, makeGenerator } from "../core/Ids.js"
import type { InvalidJob } from "../core/InvalidJob.js"
import { storableText } from "../core/Storable.js"
import { subjectMeta } from "../core/Subject.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import * as JobRequests from "../queue/enqueue/JobRequests.js"
import { jobOf } from "../queue/Job.js"
import type { JobIdTaken, QueueFull } from "../queue/JobErrors.js"
import { Kinds } from "../queue/Kinds.js"
import type { NewJob } from "../queue/NewJob.js"
import { Queue } from "../queue/Queue.js"
import { JobSearch } from "../queue/search/JobSearch.js"
import { Transactions } from "../queue/Transactions.js"
import { jobOf as executionJob } from "../queue/workflow/ExecutionJob.js"
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

export const iso = (millis: number): string => new Date(millis).toISOString()

/** Returns the unfinished previous job, if the schedule does not allow overlapping runs. */
export const unfinishedRun = (
  search: typeof JobSearch.Service,
  { lastJobId, overlap }: StoredSchedule
): Effect.Effect<JobId | undefined, DatabaseError> =>
  overlap === "allow" || lastJobId === undefined
    ? Effect.succeed(undefined)
    : search.get(lastJobId).pipe(
        Effect.map(({ finishedAt }) => (finishedAt === undefined ? lastJobId : undefined)),
        Effect.catchTag("JobNotFound", () => Effect.succeed(undefined))
      )

/** One firing of a schedule. */
export interface Firing {
  /** The tick or the trigger, unique in the schedule. Part of the key of an execution. */
  readonly key: string
  /** Whether the firing may be tried again, for example by the next leader. */
  readonly once: boolean
  readonly meta: NonNullable<NewJob["meta"]>
}

/** The job of a firing. A workflow starts an execution, whose id is the same for every leader; so is the dedupe key of a job. */
const firingJob = (
  job: NewJob,
  { name, subject }: StoredSchedule,
  isWorkflow: boolean,
  { key, meta, once }: Firing
): NewJob => {
  const made = { ...job, meta: { ...meta, ...subjectMeta(subject) } }
  if (isWorkflow) return executionJob({ ...made, execution: `${job.kind}/${name}/${key}` })
  return once ? { ...made, dedupe: { key: `schedule:${name}:${key}`, scope: "retained" } } : made
}

/**
 * Enqueues the jobs or starts the executions of these firings in the current transaction. Routes apply as for the API. A
 * generator, which becomes a part of its caller's.
 */
export function* store(
  { kinds, queue }: { readonly kinds: typeof Kinds.Service; readonly queue: typeof Queue.Service },
  schedule: StoredSchedule,
  firings: ReadonlyArray<Firing>
) {
  const { attempts, payload, queue: queueName } = schedule
  const kind = yield* JobRequests.kindOf(kinds, schedule.kind)
  const job = jobOf(kind, { payload, queue: queueName, attempts })
  const stored = yield* queue.enqueue(firings.map((firing) => firingJob(job, schedule, kind.workflow === true, firing)))
  return stored.map(({ id }) => id)
}

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
    const search = yield* JobSearch
    const storage = { kinds: yield* Kinds, queue: yield* Queue }
    return yield* transactions.run(
      Effect.gen(function* () {
        const schedule = yield* schedules.hold(name)
        const busy = yield* unfinishedRun(search, schedule)
        if (busy !== undefined) return yield* new PreviousRunActive({ name, job: busy })
        const now = yield* Clock.currentTimeMillis
        const meta = { schedule: name, triggeredAt: iso(now) }
        const key = `triggered/${(yield* makeGenerator).plain(now)}`
        const [job] = yield* store(storage, schedule, [{ key, once: false, meta }])
        if (job !== undefined)
          yield* schedules.note(name, [TickOutcome.Triggered({ at: now, job, by: storableText(by, 100) })])
        return yield* schedules.get(name)
      })
    )
  })

import { Effect } from "effect"
import type { Missed, Overlap } from "../schedule/Policies.js"
import type { Schedule } from "../schedule/Schedule.js"
import type { ScheduleDefinition } from "../schedule/ScheduleDefinition.js"
import * as Trigger from "../schedule/ScheduledJobs.js"
import { Schedules } from "../schedule/Schedules.js"
import type { StoredSchedule } from "../schedule/StoredSchedule.js"
import type { Engine, Ports } from "./Engine.js"

/** A schedule as it is stored. */
export interface ScheduleView {
  readonly name: string
  readonly kind: string
  readonly payload: unknown
  readonly cron: string
  readonly timezone: string
  readonly queue: string | undefined
  readonly attempts: number | undefined
  readonly overlap: Overlap
  readonly missed: Missed
  readonly paused: boolean
  /** Absent while the schedule is paused. */
  readonly nextFireAt: Date | undefined
  readonly lastFireAt: Date | undefined
  readonly lastError: string | undefined
  readonly lastJobId: string | undefined
}

/** Schedules created at run time. Pass those that are known at start to `worker(…, { schedules })`. */
export interface ScheduleAdmin {
  /** Creates or updates a schedule: `put(job.schedule(name, options))`. */
  put(schedule: Schedule): Promise<ScheduleView>
  get(name: string): Promise<ScheduleView>
  /** All schedules, by name. */
  list(): Promise<ReadonlyArray<ScheduleView>>
  /** Stops the schedule from firing until it is resumed. */
  pause(name: string): Promise<ScheduleView>
  /** Resumes the schedule. Runs missed in the meantime are skipped. */
  resume(name: string): Promise<ScheduleView>
  /** Deletes the schedule. A worker that declares it does not create it again. */
  remove(name: string): Promise<void>
  /** Enqueues a job of the schedule now, in addition to its regular runs. Returns the job's id. */
  trigger(name: string): Promise<string>
}

const dateOf = (millis: number | undefined): Date | undefined => (millis === undefined ? undefined : new Date(millis))

const viewOf = (schedule: StoredSchedule): ScheduleView => ({
  name: schedule.name,
  kind: schedule.kind,
  payload: schedule.payload,
  cron: schedule.cron,
  timezone: schedule.timezone,
  queue: schedule.queue,
  attempts: schedule.attempts,
  overlap: schedule.overlap,
  missed: schedule.missed,
  paused: schedule.paused,
  nextFireAt: schedule.paused ? undefined : dateOf(schedule.nextFireAt),
  lastFireAt: dateOf(schedule.lastFireAt),
  lastError: schedule.lastError,
  lastJobId: schedule.lastJobId
})

const pageSize = 500

const all = Effect.gen(function* () {
  const schedules = yield* Schedules
  const found: Array<StoredSchedule> = []
  for (;;) {
    const page = yield* schedules.list({ limit: pageSize, after: found.at(-1)?.name })
    found.push(...page)
    if (page.length < pageSize) return found
  }
})

const put = ({ definition: declared, name }: Schedule) =>
  Effect.gen(function* () {
    const schedules = yield* Schedules
    const definition: ScheduleDefinition = yield* declared
    const { attempts, name: _, queue, ...rest } = definition
    const edit = { ...rest, queue: queue ?? null, attempts: attempts ?? null }
    return yield* Effect.catchTag(schedules.create(definition), "ScheduleExists", () =>
      Effect.map(schedules.edit(name, edit), ({ after }) => after)
    )
  })

const switched = (name: string, paused: boolean) =>
  Effect.flatMap(Schedules, (schedules) => Effect.map(schedules.edit(name, { paused }), ({ after }) => viewOf(after)))

export const make = ({ run }: Engine<Ports>): ScheduleAdmin => ({
  put: (schedule) => run(Effect.map(put(schedule), viewOf)),
  get: (name) => run(Effect.flatMap(Schedules, (schedules) => Effect.map(schedules.get(name), viewOf))),
  list: () => run(Effect.map(all, (found) => found.map(viewOf))),
  pause: (name) => run(switched(name, true)),
  resume: (name) => run(switched(name, false)),
  remove: (name) => run(Effect.flatMap(Schedules, (schedules) => Effect.asVoid(schedules.remove(name)))),
  trigger: (name) => run(Effect.map(Trigger.trigger(name), ({ lastJobId }) => String(lastJobId)))
})

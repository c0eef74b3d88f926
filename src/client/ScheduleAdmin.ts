import { Effect, Predicate } from "effect"
import { shown } from "../core/Storable.js"
import * as Response from "../http/admin/ScheduleView.js"
import { Kinds } from "../queue/Kinds.js"
import { definitionOf } from "../schedule/Schedule.js"
import * as Trigger from "../schedule/ScheduledJobs.js"
import { InvalidSchedule } from "../schedule/ScheduleErrors.js"
import type { Schedule, StoredSchedule } from "../schedule/ScheduleSettings.js"
import { Schedules } from "../schedule/Schedules.js"
import type { Engine, Ports } from "./Engine.js"
import { textOf } from "./Options.js"
import * as PlainFields from "./PlainFields.js"
import { InvalidOptionError } from "./ShiftErrors.js"

/** A schedule as it is stored, and its expression in words. `nextFireAt` is absent while it is paused. */
export interface ScheduleView extends PlainFields.PlainFields<Omit<StoredSchedule, "revision" | "subject">> {
  /** The expression in English, such as `at 09:30 on weekdays, Europe/Berlin`; undefined if it is invalid. */
  readonly words: string | undefined
}

/** Schedules created at run time. Pass those that are known at start to `worker(…, { schedules })`. */
export interface ScheduleAdmin {
  /**
   * Creates or updates a schedule: `put(job.schedule(name, options))`. Rejects with InvalidScheduleError for a workflow that
   * no worker has registered.
   */
  put(schedule: Schedule): Promise<ScheduleView>
  /** The schedule with this name. Rejects with ScheduleNotFoundError. */
  get(name: string): Promise<ScheduleView>
  /** All schedules, by name. */
  list(): Promise<ReadonlyArray<ScheduleView>>
  /** Stops the schedule from firing until it is resumed. */
  pause(name: string): Promise<ScheduleView>
  /** Resumes the schedule. Runs missed in the meantime are skipped. */
  resume(name: string): Promise<ScheduleView>
  /** Deletes the schedule. A worker that declares it does not create it again. */
  remove(name: string): Promise<void>
  /** Enqueues a job of the schedule now, or starts an execution, in addition to its regular runs. Returns the job's id. */
  trigger(name: string): Promise<string>
}

const fieldsOf = PlainFields.of(Response.ScheduleView)

/** @internal */
export const viewOf = (schedule: StoredSchedule): ScheduleView => fieldsOf(Response.described(schedule))

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

const put = (schedule: Schedule) =>
  Effect.gen(function* () {
    const schedules = yield* Schedules
    const definition = yield* definitionOf(schedule)
    // Without its registration, the leader would take the kind for a plain job.
    if (schedule.workflow === true)
      yield* Effect.flatMap(Kinds, (kinds) => kinds.find(definition.kind)).pipe(
        Effect.catchTag("UnknownKind", ({ kind }) => {
          const reason = `no worker has registered the workflow "${kind}" yet: start one with it, then create the schedule`
          return new InvalidSchedule({ name: schedule.name, field: "workflow", reason })
        })
      )
    const { attempts, name: _, queue, subject, ...rest } = definition
    const edit = { ...rest, queue: queue ?? null, attempts: attempts ?? null, subject: subject ?? null }
    return yield* Effect.catchTag(schedules.create(definition), "ScheduleExists", () =>
      Effect.map(schedules.edit(schedule.name, edit), ({ after }) => after)
    )
  })

const switched = (name: string, paused: boolean) =>
  Effect.flatMap(Schedules, (schedules) => Effect.map(schedules.edit(name, { paused }), ({ after }) => viewOf(after)))

const nameOf = (method: string, name: unknown) => textOf("name", `schedules.${method}`, name)

/** @internal */
export const make = ({ run }: Engine<Ports>): ScheduleAdmin => ({
  put: async (schedule) => {
    if (!Predicate.hasProperty(schedule, "definition"))
      throw new InvalidOptionError(
        "schedule",
        `schedules.put takes a schedule that job.schedule(name, options) returned, got ${shown(schedule)}.`
      )
    return run(Effect.map(put(schedule), viewOf))
  },
  get: async (name) => {
    const given = nameOf("get", name)
    return run(Effect.flatMap(Schedules, (schedules) => Effect.map(schedules.get(given), viewOf)))
  },
  list: () => run(Effect.map(all, (found) => found.map(viewOf))),
  pause: async (name) => run(switched(nameOf("pause", name), true)),
  resume: async (name) => run(switched(nameOf("resume", name), false)),
  remove: async (name) => {
    const given = nameOf("remove", name)
    return run(Effect.flatMap(Schedules, (schedules) => Effect.asVoid(schedules.remove(given))))
  },
  trigger: async (name) =>
    run(Effect.map(Trigger.trigger(nameOf("trigger", name)), ({ lastJobId }) => String(lastJobId)))
})

import { Effect } from "effect"
import type { StoredJob } from "../core/StoredJob.js"
import type { StoredSchedule } from "../schedule/StoredSchedule.js"
import * as Masking from "../telemetry/Masking.js"
import { AccessConfig } from "./access/AccessConfig.js"
import { Caller } from "./access/Caller.js"
import * as ScheduleView from "./admin/ScheduleView.js"
import * as JobView from "./jobs/JobView.js"
import { Forbidden } from "./RequestErrors.js"

/** What each caller gets to see: the admin everything, a viewer all but what is masked. */
export interface Views {
  readonly job: (job: StoredJob) => Effect.Effect<JobView.JobView>
  readonly schedule: (schedule: StoredSchedule) => Effect.Effect<ScheduleView.ScheduleView>
  /** Any JSON. */
  readonly json: (value: unknown) => Effect.Effect<unknown>
  /** Fails for those who would find out by asking what they may not see. */
  readonly mayAskFor: (payload: unknown) => Effect.Effect<void, Forbidden>
}

export const make: Effect.Effect<Views, never, AccessConfig> = Effect.map(AccessConfig, ({ mask: names }) => {
  const mask = Masking.make(names)
  const maskText = Masking.makeText(names)
  const forCaller = <A>(whole: A, hidden: () => A) =>
    Effect.map(Caller, ({ role }) => (role === "admin" || names.length === 0 ? whole : hidden()))
  return {
    job: (job) => {
      const view = JobView.of(job)
      return forCaller(view, () => ({
        ...view,
        payload: mask(view.payload),
        result: mask(view.result),
        progress: mask(view.progress),
        meta: mask(view.meta),
        // Errors are stored without hidden values; not those that were stored before NIGHTSHIFT_MASK named the fields.
        lastError: view.lastError === null ? null : maskText(view.lastError, view.payload),
        errors: view.errors.map((error) => ({
          ...error,
          message: error.message === null ? null : maskText(error.message, view.payload)
        }))
      }))
    },
    schedule: (schedule) => {
      const view = ScheduleView.of(schedule)
      return forCaller(view, () => ({
        ...view,
        payload: mask(view.payload),
        lastError: view.lastError === null ? null : maskText(view.lastError, view.payload)
      }))
    },
    json: (value) => forCaller(value, () => mask(value)),
    mayAskFor: (payload) =>
      Effect.flatMap(Caller, ({ role }) =>
        role === "admin" || payload === undefined || !Masking.touches(names, payload)
          ? Effect.void
          : new Forbidden({ message: "This filter asks for fields that NIGHTSHIFT_MASK hides from viewers." })
      )
  }
})

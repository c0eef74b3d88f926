import { Effect } from "effect"
import type { StoredJob } from "../core/StoredJob.js"
import type { StoredSchedule } from "../schedule/StoredSchedule.js"
import * as Masking from "../telemetry/Masking.js"
import { AccessConfig } from "./access/AccessConfig.js"
import { Caller } from "./access/Caller.js"
import * as ScheduleView from "./admin/ScheduleView.js"
import * as JobView from "./jobs/JobView.js"
import { Forbidden } from "./RequestErrors.js"

/** Response bodies per caller: an admin sees everything, a viewer sees masked fields hidden. */
export interface Views {
  readonly job: (job: StoredJob) => Effect.Effect<JobView.JobView>
  /** The job in a list. */
  readonly listed: (job: StoredJob) => Effect.Effect<JobView.JobView>
  readonly schedule: (schedule: StoredSchedule) => Effect.Effect<ScheduleView.ScheduleView>
  /** Masks any JSON value. */
  readonly json: (value: unknown) => Effect.Effect<unknown>
  /** Fails if a viewer filters by a masked field, which would reveal its value. */
  readonly checkFilterAllowed: (payload: unknown) => Effect.Effect<void, Forbidden>
}

export const make: Effect.Effect<Views, never, AccessConfig> = Effect.map(AccessConfig, ({ mask: names }) => {
  const mask = Masking.make(names)
  const maskText = Masking.makeText(names)
  const forCaller = <A>(whole: A, hidden: () => A) =>
    Effect.map(Caller, ({ role }) => (role === "admin" || names.length === 0 ? whole : hidden()))
  const shown = (view: JobView.JobView) =>
    forCaller(view, () => ({
      ...view,
      payload: mask(view.payload),
      result: mask(view.result),
      progress: mask(view.progress),
      meta: mask(view.meta),
      // New errors are stored masked. Errors stored before NIGHTSHIFT_MASK was set are not, so mask them here.
      lastError: view.lastError === null ? null : maskText(view.lastError, view.payload),
      errors: view.errors.map((error) => ({
        ...error,
        message: error.message === null ? null : maskText(error.message, view.payload)
      }))
    }))
  return {
    job: (job) => shown(JobView.of(job)),
    listed: (job) => shown(JobView.ofListed(job)),
    schedule: (schedule) => {
      const view = ScheduleView.of(schedule)
      return forCaller(view, () => ({
        ...view,
        payload: mask(view.payload),
        lastError: view.lastError === null ? null : maskText(view.lastError, view.payload)
      }))
    },
    json: (value) => forCaller(value, () => mask(value)),
    checkFilterAllowed: (payload) =>
      Effect.flatMap(Caller, ({ role }) =>
        role === "admin" || payload === undefined || !Masking.touches(names, payload)
          ? Effect.void
          : new Forbidden({
              message: "This filter uses fields that NIGHTSHIFT_MASK hides from viewers. Use the admin token."
            })
      )
  }
})

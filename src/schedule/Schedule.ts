import { Either, Schema } from "effect"
import { type Kind, defaults as kindDefaults } from "../core/Kind.js"
import type { Missed, Overlap } from "./Policies.js"
import { defaults, type ScheduleDefinition } from "./ScheduleDefinition.js"
import { InvalidSchedule } from "./ScheduleErrors.js"

/** A schedule declared in code. It is validated when a process starts with it. */
export interface Schedule {
  /** Unique name of the schedule in the cluster. */
  readonly name: string
  /** The validated definition, or why it is invalid. */
  readonly definition: Either.Either<ScheduleDefinition, InvalidSchedule>
}

/** When a schedule fires, and how its jobs run. */
export interface ScheduleSettings {
  /** Five fields, six with seconds first, or a macro like `@daily`. */
  readonly cron: string
  /** IANA name of the time zone of the expression. [UTC] */
  readonly timezone?: string | undefined
  /** `skip` stores no job while the previous one has not finished. [allow] */
  readonly overlap?: Overlap | undefined
  /** Runs missed while no process could fire them: run once for all, `none`, or each up to a limit. [one] */
  readonly missed?: Missed | undefined
  /** Queue that the jobs wait in. [the kind's] */
  readonly queue?: string | undefined
  /** Attempts before a job is dead, counting the first. [the kind's] */
  readonly attempts?: number | undefined
  /** Whether the schedule does not fire. An operator can change it. [false] */
  readonly paused?: boolean | undefined
}

/** When a schedule fires, and the job that it enqueues. */
export interface ScheduleOptions<A> extends ScheduleSettings {
  /** Kind of job that the schedule enqueues, from `Job.make`. */
  readonly job: Kind<A>
  /** Payload of every job of the schedule. */
  readonly payload: NoInfer<A>
}

/**
 * The schedule of a kind with an encoded payload, or the reason why the payload is invalid. It carries the queue and the
 * attempts that the kind declares: no process may have registered the kind when the schedule first fires.
 */
export const ofKind = (
  name: string,
  kind: Pick<Kind<never>, "name" | "queue" | "routed" | "attempts">,
  { attempts, cron, missed, overlap, paused, queue, timezone }: ScheduleSettings,
  encoded: Either.Either<unknown, string>
): Schedule => ({
  name,
  definition: Either.mapBoth(encoded, {
    onLeft: (reason) => new InvalidSchedule({ name, field: "payload", reason }),
    onRight: (payload) => ({
      name,
      kind: kind.name,
      payload,
      cron,
      timezone: timezone ?? defaults.timezone,
      overlap: overlap ?? defaults.overlap,
      missed: missed ?? defaults.missed,
      paused: paused ?? defaults.paused,
      queue: queue ?? (kind.routed ? undefined : kind.queue),
      // A kind that is not registered has the default as well.
      attempts: attempts ?? (kind.attempts === kindDefaults.attempts ? undefined : kind.attempts)
    })
  })
})

/**
 * Declares a recurring job. Pass it to `Nightshift.layer({ schedules: [...] })`; the cluster's leader fires it.
 *
 * @example
 * ```ts
 * import { Schema } from "effect"
 * import { Job, Schedule } from "nightshift"
 *
 * const Report = Job.make("report", { payload: Schema.Struct({ days: Schema.Number }) })
 * export const Nightly = Schedule.make("nightly_report", {
 *   job: Report,
 *   payload: { days: 1 },
 *   cron: "30 6 * * *",
 *   timezone: "Europe/Berlin"
 * })
 * ```
 */
export const make = <A>(name: string, { job, payload, ...settings }: ScheduleOptions<A>): Schedule => {
  const encoded = Either.mapLeft(
    Schema.encodeEither(job.payload)(payload),
    ({ message }) => `does not match the schema of kind "${job.name}": ${message}`
  )
  return ofKind(name, job, settings, encoded)
}

/** Returns the definitions of the declared schedules, or the first error. */
export const definitionsOf = (
  schedules: ReadonlyArray<Schedule>
): Either.Either<ReadonlyArray<ScheduleDefinition>, InvalidSchedule> => {
  const names = new Set<string>()
  for (const { name } of schedules) {
    if (names.has(name))
      return Either.left(
        new InvalidSchedule({ name, field: "name", reason: "is declared twice; schedule names must be unique" })
      )
    names.add(name)
  }
  return Either.all(schedules.map(({ definition }) => definition))
}

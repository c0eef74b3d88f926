import { Either, Schema } from "effect"
import { type Kind, defaults as kindDefaults } from "../core/Kind.js"
import { defaults, digestOfSubject } from "./ScheduleDefinition.js"
import { InvalidSchedule } from "./ScheduleErrors.js"
import type { Schedule, ScheduleDefinition, ScheduleSettings } from "./ScheduleSettings.js"

export type { Schedule, ScheduleSettings }

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
  { attempts, cron, missed, overlap, paused, queue, subject, timezone }: ScheduleSettings,
  encoded: Either.Either<unknown, string>
): Schedule => ({
  name,
  fault: Either.isLeft(encoded) ? encoded.left : undefined,
  definition: Either.getOrUndefined(
    Either.map(encoded, (payload) => ({
      name,
      kind: kind.name,
      payload,
      cron,
      timezone: timezone ?? defaults.timezone,
      overlap: overlap ?? defaults.overlap,
      missed: missed ?? defaults.missed,
      paused: paused ?? defaults.paused,
      queue: queue ?? (kind.routed ? undefined : kind.queue),
      subject: digestOfSubject(subject),
      // A kind that is not registered has the default as well.
      attempts: attempts ?? (kind.attempts === kindDefaults.attempts ? undefined : kind.attempts)
    }))
  )
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

/** Returns the definition of a declared schedule, or why its payload is invalid. */
export const definitionOf = ({
  definition,
  fault = "is missing",
  name
}: Schedule): Either.Either<ScheduleDefinition, InvalidSchedule> =>
  definition === undefined
    ? Either.left(new InvalidSchedule({ name, field: "payload", reason: fault }))
    : Either.right(definition)

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
  return Either.all(schedules.map(definitionOf))
}

import { Either, Schema } from "effect"
import type { Kind } from "../core/Kind.js"
import type { Missed, Overlap } from "./Policies.js"
import { defaults, type ScheduleDefinition } from "./ScheduleDefinition.js"
import { InvalidSchedule } from "./ScheduleErrors.js"

/** A schedule declared in code. It is validated when a pod starts with it. */
export interface Schedule {
  readonly name: string
  readonly definition: Either.Either<ScheduleDefinition, InvalidSchedule>
}

export interface ScheduleOptions<A> {
  readonly job: Kind<A>
  /** Payload of every job of the schedule. */
  readonly payload: NoInfer<A>
  /** Five fields, six with seconds first, or a macro like `@daily`. */
  readonly cron: string
  /** IANA name of the time zone of the expression. [UTC] */
  readonly timezone?: string
  /** `skip` stores no job while the previous one has not finished. [allow] */
  readonly overlap?: Overlap
  /** Runs missed while no process could fire them: run once for all, `none`, or each up to a limit. [one] */
  readonly missed?: Missed
  /** [the kind's] */
  readonly queue?: string
  /** [the kind's] */
  readonly attempts?: number
  /** Whether the schedule does not fire. An operator can change it. [false] */
  readonly paused?: boolean
}

/** Declares a recurring job. */
export const make = <A>(name: string, options: ScheduleOptions<A>): Schedule => {
  const { job, attempts, payload, queue, ...rest } = options
  const encoded = Schema.encodeEither(job.payload)(payload)
  return {
    name,
    definition: Either.mapBoth(encoded, {
      onLeft: ({ message }) =>
        new InvalidSchedule({
          name,
          field: "payload",
          reason: `does not match the schema of kind "${job.name}": ${message}`
        }),
      onRight: (stored) => ({ ...defaults, ...rest, name, kind: job.name, payload: stored, queue, attempts })
    })
  }
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

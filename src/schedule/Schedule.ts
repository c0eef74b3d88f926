import { Either, Schema } from "effect"
import type { Kind } from "../core/Kind.js"
import type { Missed, Overlap } from "./Policies.js"
import { defaults, type ScheduleDefinition } from "./ScheduleDefinition.js"
import { InvalidSchedule } from "./ScheduleErrors.js"

/** A schedule as code declares it. Whether it can be is found out when a pod starts with it. */
export interface Schedule {
  readonly name: string
  readonly definition: Either.Either<ScheduleDefinition, InvalidSchedule>
}

export interface ScheduleOptions<A> {
  /** The kind of its jobs. */
  readonly job: Kind<A>
  /** The same for every job. */
  readonly payload: NoInfer<A>
  /** Five fields, six with seconds first, or a macro like `@daily`. */
  readonly cron: string
  /** IANA name of the zone that the expression means. [UTC] */
  readonly timezone?: string
  /** `skip`: no job while the one before is not over. [allow] */
  readonly overlap?: Overlap
  /** Runs whose time passed while nobody could fire them: one for all of them, none, or up to so many. [one] */
  readonly missed?: Missed
  /** [the kind's] */
  readonly queue?: string
  /** [the kind's] */
  readonly maxAttempts?: number
  /** Whether it fires at all, until an operator says otherwise. [true] */
  readonly enabled?: boolean
}

/** Declares a recurring job. */
export const make = <A>(name: string, options: ScheduleOptions<A>): Schedule => {
  const { job, maxAttempts, payload, queue, ...rest } = options
  const encoded = Schema.encodeEither(job.payload)(payload)
  return {
    name,
    definition: Either.mapBoth(encoded, {
      onLeft: ({ message }) =>
        new InvalidSchedule({ name, field: "payload", reason: `does not fit the kind "${job.name}": ${message}` }),
      onRight: (stored) => ({ ...defaults, ...rest, name, kind: job.name, payload: stored, queue, maxAttempts })
    })
  }
}

/** What code declares, whole, or the first thing that is wrong with it. */
export const definitionsOf = (
  schedules: ReadonlyArray<Schedule>
): Either.Either<ReadonlyArray<ScheduleDefinition>, InvalidSchedule> => {
  const names = new Set<string>()
  for (const { name } of schedules) {
    if (names.has(name)) return Either.left(new InvalidSchedule({ name, field: "name", reason: "is declared twice" }))
    names.add(name)
  }
  return Either.all(schedules.map(({ definition }) => definition))
}

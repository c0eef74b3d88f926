import type { JobId } from "../core/Id.js"
import type { SubjectDigest } from "../core/Subject.js"

// Schedules as plain data and types without Effect: programs that use promises see them, and a schedule may be declared by
// another copy of this module than the one that stores it.

/** What to do when a schedule is due and its previous job has not finished. */
export type Overlap = "allow" | "skip"

/**
 * What to do with runs that were missed while no leader could fire them: run once for all of them, skip them, or run
 * each. If there are more than the limit, only the latest are run.
 */
export type Missed = "one" | "none" | { readonly all: number }

/** The definition of a schedule, without its runtime state. */
export interface ScheduleDefinition {
  /** Unique name of the schedule in the cluster. */
  readonly name: string
  /** Kind of the jobs that the schedule enqueues. */
  readonly kind: string
  /** The encoded payload, as it is stored with every job. */
  readonly payload: unknown
  /** Five fields, six with seconds first, or a macro like `@daily`. */
  readonly cron: string
  /** IANA name of the time zone of the expression, such as `Europe/Berlin`. */
  readonly timezone: string
  /** Queue that the jobs wait in. Undefined means the kind's queue. */
  readonly queue: string | undefined
  /** Attempts of each job, counting the first. Defaults to those of the kind. */
  readonly attempts: number | undefined
  /** SHA-256 digest of the subject, in hexadecimal. The jobs have the same subject. */
  readonly subject?: SubjectDigest | undefined
  /** `skip` stores no job while the previous one has not finished. */
  readonly overlap: Overlap
  /** What happens to runs that no process could fire: one for all, none, or each up to a limit. */
  readonly missed: Missed
  /** Whether the schedule does not fire. */
  readonly paused: boolean
}

/** The fields of a definition that can be changed. */
export type ScheduleField = Exclude<keyof ScheduleDefinition, "name">

/** A stored schedule with its runtime state. Instants are epoch milliseconds. */
export interface StoredSchedule extends ScheduleDefinition {
  /** `code`: a worker declared it. `operator`: it was created at run time. */
  readonly origin: "code" | "operator"
  /** Fields edited by an operator; declarations in code no longer change them. */
  readonly edited: ReadonlyArray<ScheduleField>
  /** Next fire time; absent until the scheduler has computed it. */
  readonly nextFireAt: number | undefined
  /** When the schedule last fired. */
  readonly lastFireAt: number | undefined
  /** The last tick that was skipped because the previous job had not finished. */
  readonly lastSkipAt: number | undefined
  /** Why the schedule cannot fire and was paused. Cleared when it fires again. */
  readonly lastError: string | undefined
  /** Id of the job that the last tick or trigger stored. */
  readonly lastJobId: JobId | undefined
  /** When the schedule was stored. */
  readonly createdAt: number
  /** When the schedule last changed or fired. */
  readonly updatedAt: number
  /** Increases with every write, for optimistic locking. */
  readonly revision: number
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
  /** Whose data the payload has, such as `customer:42`: that of all jobs. Erasing it removes the schedule. [none] */
  readonly subject?: string | undefined
  /** Whether the schedule does not fire. An operator can change it. [false] */
  readonly paused?: boolean | undefined
}

/** A schedule declared in code. It is validated when a process starts with it. */
export interface Schedule {
  /** Unique name of the schedule in the cluster. */
  readonly name: string
  /** When it fires and what it enqueues. Undefined if the payload is invalid. */
  readonly definition: ScheduleDefinition | undefined
  /** Why the payload is invalid. */
  readonly fault: string | undefined
  /** Whether it starts executions of a workflow. [false] */
  readonly workflow?: boolean | undefined
}

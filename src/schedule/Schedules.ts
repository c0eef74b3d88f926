import { Context, type Effect, type Option, type Scope } from "effect"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { ScheduleDefinition } from "./ScheduleDefinition.js"
import type { InvalidSchedule, ScheduleExists, ScheduleNotFound } from "./ScheduleErrors.js"
import type { ScheduleEdit, StoredSchedule } from "./StoredSchedule.js"
import type { TickOutcome } from "./TickOutcome.js"

/** Where a schedule stood before and after. */
export interface Change {
  readonly before: StoredSchedule
  readonly after: StoredSchedule
}

/** Recurring jobs, and when each is due. */
export class Schedules extends Context.Tag("nightshift/schedule/Schedules")<
  Schedules,
  {
    /**
     * Code says what schedules there are. A new one is made, a declaration that has changed is taken over but for what an
     * operator has changed, and what an operator made or removed stays so. Answers with the names that were written.
     */
    readonly declare: (
      definitions: ReadonlyArray<ScheduleDefinition>
    ) => Effect.Effect<ReadonlyArray<string>, InvalidSchedule | DatabaseError>

    /** An operator makes one. */
    readonly create: (
      definition: ScheduleDefinition
    ) => Effect.Effect<StoredSchedule, InvalidSchedule | ScheduleExists | DatabaseError>

    /** An operator changes what the edit names, all or nothing. Enabled or retimed, it fires next at its next time from now. */
    readonly edit: (
      name: string,
      edit: ScheduleEdit
    ) => Effect.Effect<Change, InvalidSchedule | ScheduleNotFound | DatabaseError>

    /** An operator removes one; code that declares it again does not bring it back. Returns what it was. */
    readonly remove: (name: string) => Effect.Effect<StoredSchedule, ScheduleNotFound | DatabaseError>

    readonly get: (name: string) => Effect.Effect<StoredSchedule, ScheduleNotFound | DatabaseError>

    /** The same, and in a transaction nobody else changes it until that ends. */
    readonly hold: (name: string) => Effect.Effect<StoredSchedule, ScheduleNotFound | DatabaseError>

    /** By name, at most `limit` of those after one. */
    readonly list: (page: {
      readonly limit: number
      readonly after?: string | undefined
    }) => Effect.Effect<ReadonlyArray<StoredSchedule>, DatabaseError>

    /** Those that are enabled and whose time has come or is not known yet, at most so many, the longest due first. */
    readonly due: (limit: number) => Effect.Effect<ReadonlyArray<StoredSchedule>, DatabaseError>

    /** When the next one is due; an instant that has passed where one is due, or was never seen. */
    readonly nextInstant: Effect.Effect<Option.Option<number>, DatabaseError>

    /** Moves the next fire, if the schedule is still as it was read: one of many who try succeeds, and is told how it stands. */
    readonly advance: (
      read: StoredSchedule,
      nextFireAt: number
    ) => Effect.Effect<Option.Option<StoredSchedule>, DatabaseError>

    /** Writes down what came of ticks, oldest first. */
    readonly note: (name: string, outcomes: ReadonlyArray<TickOutcome>) => Effect.Effect<void, DatabaseError>

    /** What came of its last ticks, newest first, a handful. A schedule made anew under an old name begins without. */
    readonly history: (name: string) => Effect.Effect<ReadonlyArray<TickOutcome>, ScheduleNotFound | DatabaseError>

    /** Switches off a schedule that cannot fire, if it is still as it was read, and says why; whether it did. */
    readonly disableBroken: (read: StoredSchedule, reason: string) => Effect.Effect<boolean, DatabaseError>

    /** Calls back when somebody, also in another process, may have changed a schedule, until the Scope closes. A hint. */
    readonly onChange: (listener: () => void) => Effect.Effect<void, never, Scope.Scope>
  }
>() {}

/** What is called out when a schedule has changed. */
export const topic = "schedule"

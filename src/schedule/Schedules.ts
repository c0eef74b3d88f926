import { Context, type Effect, type Option, type Scope } from "effect"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { Erase } from "../database/SubjectText.js"
import type { ScheduleDefinition } from "./ScheduleDefinition.js"
import type { InvalidSchedule, ScheduleExists, ScheduleNotFound } from "./ScheduleErrors.js"
import type { ScheduleEdit, StoredSchedule } from "./StoredSchedule.js"
import type { TickOutcome } from "./TickOutcome.js"

/** A schedule before and after a change. */
export interface Change {
  readonly before: StoredSchedule
  readonly after: StoredSchedule
}

/** Stored schedules: declared by code, created and edited by operators, fired by the leader. */
export class Schedules extends Context.Tag("nightshift/schedule/Schedules")<
  Schedules,
  {
    /**
     * Stores the schedules declared in code. Creates new schedules and applies changed declarations, except for fields
     * that an operator has edited. Leaves alone the schedules that an operator created or removed. Returns the names
     * that were written.
     */
    readonly declare: (
      definitions: ReadonlyArray<ScheduleDefinition>
    ) => Effect.Effect<ReadonlyArray<string>, InvalidSchedule | DatabaseError>

    /** Stores a schedule that an operator created. Fails with ScheduleExists. */
    readonly create: (
      definition: ScheduleDefinition
    ) => Effect.Effect<StoredSchedule, InvalidSchedule | ScheduleExists | DatabaseError>

    /**
     * Applies an operator's edit atomically. If the edit resumes the schedule or changes its time, it fires next at its
     * next time after now.
     */
    readonly edit: (
      name: string,
      edit: ScheduleEdit
    ) => Effect.Effect<Change, InvalidSchedule | ScheduleNotFound | DatabaseError>

    /**
     * Removes a schedule for an operator. Code that declares it again does not recreate it. Returns the removed
     * schedule.
     */
    readonly remove: (name: string) => Effect.Effect<StoredSchedule, ScheduleNotFound | DatabaseError>

    /** Returns a schedule and when it fires next. Fails with ScheduleNotFound. */
    readonly get: (name: string) => Effect.Effect<StoredSchedule, ScheduleNotFound | DatabaseError>

    /** Like `get`, and locks the schedule until the end of the transaction. */
    readonly hold: (name: string) => Effect.Effect<StoredSchedule, ScheduleNotFound | DatabaseError>

    /** Lists schedules by name: at most `limit`, starting after `after`. */
    readonly list: (page: {
      /** Maximum number of schedules in this page. */
      readonly limit: number
      /** Name of the last schedule of the previous page. [the first page] */
      readonly after?: string | undefined
    }) => Effect.Effect<ReadonlyArray<StoredSchedule>, DatabaseError>

    /**
     * Returns up to `limit` unpaused schedules that are due or have no next fire time yet, the longest due first, starting
     * after `after`.
     */
    readonly due: (
      limit: number,
      after?: Pick<StoredSchedule, "name" | "nextFireAt">
    ) => Effect.Effect<ReadonlyArray<StoredSchedule>, DatabaseError>

    /** When the next schedule is due. In the past if one is due already or has no next fire time yet. */
    readonly nextInstant: Effect.Effect<Option.Option<number>, DatabaseError>

    /**
     * Sets the next fire time if the schedule has not changed since it was read. If several callers race, only one
     * succeeds and gets the updated schedule.
     */
    readonly advance: (
      read: StoredSchedule,
      nextFireAt: number
    ) => Effect.Effect<Option.Option<StoredSchedule>, DatabaseError>

    /** Records the outcomes of ticks, given oldest first. */
    readonly note: (name: string, outcomes: ReadonlyArray<TickOutcome>) => Effect.Effect<void, DatabaseError>

    /**
     * Returns the outcomes of the last ticks, newest first. A schedule that is recreated under an old name starts with
     * an empty history.
     */
    readonly history: (name: string) => Effect.Effect<ReadonlyArray<TickOutcome>, ScheduleNotFound | DatabaseError>

    /**
     * Pauses a schedule that cannot fire and stores the reason, if it has not changed since it was read. Returns
     * whether it did.
     */
    readonly pauseBroken: (read: StoredSchedule, reason: string) => Effect.Effect<boolean, DatabaseError>

    /** Removes the schedules of a subject. Of those that code declares, a row without payload stays. */
    readonly erase: Erase

    /**
     * Calls the listener when a schedule may have changed, in this or another process, until the Scope closes. A hint
     * only: callers must also poll.
     */
    readonly onChange: (listener: () => void) => Effect.Effect<void, never, Scope.Scope>
  }
>() {}

/** Topic of hints for changed schedules. */
export const topic = "schedule"

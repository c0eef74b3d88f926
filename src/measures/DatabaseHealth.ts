import { Context, type Duration, type Effect, type Option } from "effect"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { Range, TooManyPoints } from "./TimeGrid.js"

/** The database in numbers. */
export interface DatabaseFacts {
  readonly sizeBytes: number
  /** The job table with its indexes. */
  readonly jobBytes: number
  /** As the statistics of the server estimate them. */
  readonly jobLiveTuples: number
  readonly jobDeadTuples: number
  /** How long the oldest transaction has been open that keeps vacuum from removing what died since; 0 without one. */
  readonly oldestTransactionSeconds: number
  readonly connections: number
}

/** Something that keeps dead rows from being removed. */
export interface VacuumBlocker {
  readonly what: "session" | "prepared transaction" | "replication slot"
  /** A process id, a transaction's or a slot's name. */
  readonly name: string
  readonly user: string | undefined
  readonly application: string | undefined
  /** What a session is doing, as the server calls it. */
  readonly state: string | undefined
  /** Absent for a slot, of which nobody knows. */
  readonly seconds: number | undefined
  /** How many transactions have begun since. */
  readonly transactions: number
}

export interface Health extends DatabaseFacts {
  /** When it was looked at, in epoch milliseconds. */
  readonly at: number
  /** Longest open first; a few at most. */
  readonly blockers: ReadonlyArray<VacuumBlocker>
}

/** One bucket of the database's life: the worst of each. */
export interface DatabasePoint extends DatabaseFacts {
  readonly at: number
}

/** How the database is. Every look at it is bounded in time. */
export class DatabaseHealth extends Context.Tag("nightshift/measures/DatabaseHealth")<
  DatabaseHealth,
  {
    /** A look at it now. */
    readonly look: Effect.Effect<Health, DatabaseError>

    /** Looks and keeps what it sees, unless somebody has done so in this minute. */
    readonly sample: Effect.Effect<Option.Option<Health>, DatabaseError>

    /** The buckets of a range in which somebody looked, oldest first. */
    readonly series: (
      request: Range & { readonly width: Duration.Duration }
    ) => Effect.Effect<ReadonlyArray<DatabasePoint>, TooManyPoints | DatabaseError>

    /** Forgets minutes older than this. Returns how many went. */
    readonly purge: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>
  }
>() {}

import { Context, type Duration, type Effect, type Option } from "effect"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { ReplicaState } from "../database/Replica.js"
import type { Range, TooManyPoints } from "./TimeGrid.js"

export interface DatabaseFacts {
  readonly sizeBytes: number
  /** Size of the job table with its indexes. */
  readonly jobBytes: number
  /** Estimated by the server's statistics. */
  readonly jobLiveTuples: number
  readonly jobDeadTuples: number
  /** Age of the oldest open transaction that keeps vacuum from removing dead rows; 0 if there is none. */
  readonly oldestTransactionSeconds: number
  readonly connections: number
}

/** Something that keeps vacuum from removing dead rows. */
export interface VacuumBlocker {
  readonly what: "session" | "prepared transaction" | "replication slot"
  /** Process id, prepared transaction id or slot name. */
  readonly name: string
  readonly user: string | undefined
  readonly application: string | undefined
  /** The session's state in `pg_stat_activity`. */
  readonly state: string | undefined
  /** Absent for a replication slot, which has no start time. */
  readonly seconds: number | undefined
  /** Number of transactions started since. */
  readonly transactions: number
}

export interface Health extends DatabaseFacts {
  /** Time of the check, in epoch milliseconds. */
  readonly at: number
  /** Oldest first; at most a few. */
  readonly blockers: ReadonlyArray<VacuumBlocker>
}

/** Maximum of each value in one bucket. */
export interface DatabasePoint extends DatabaseFacts {
  readonly at: number
}

/** The connections of the whole server. */
export interface Sessions {
  /** Connections that the server accepts from roles without special rights. */
  readonly limit: number
  /** Open connections of programs with another application name than this process. */
  readonly others: number
}

/** Database health. Every check has a time limit. */
export class DatabaseHealth extends Context.Tag("nightshift/history/DatabaseHealth")<
  DatabaseHealth,
  {
    /** Measures sizes, dead rows and connections now, and finds what keeps vacuum from removing dead rows. */
    readonly check: Effect.Effect<Health, DatabaseError>

    /** The replica that lists and charts are read from, if there is one. */
    readonly replica: Effect.Effect<ReplicaState | undefined>

    /** Counts the connections of the whole server and its limit. */
    readonly sessions: Effect.Effect<Sessions, DatabaseError>

    /** Checks the database and stores a sample, unless another process has done so this minute. */
    readonly sample: Effect.Effect<Option.Option<Health>, DatabaseError>

    /** Buckets of a range that have samples, oldest first. */
    readonly series: (
      request: Range & {
        /** Length of one bucket. */
        readonly width: Duration.Duration
      }
    ) => Effect.Effect<ReadonlyArray<DatabasePoint>, TooManyPoints | DatabaseError>

    /** Deletes samples older than this. Returns the number deleted. */
    readonly purge: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>
  }
>() {}

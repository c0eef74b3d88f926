import { Context, type Effect } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { State } from "../../core/StoredJob.js"
import type { SubjectDigest } from "../../core/Subject.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { Erase } from "../../database/SubjectText.js"

/** What is stored of the jobs of a subject. */
export interface HeldByJobs {
  /** Jobs and executions that have not been erased, by state. */
  readonly states: Readonly<Record<State, number>>
  /** How many of them are executions. */
  readonly executions: number
  /** Attempts with logs. */
  readonly logs: number
  /** Recorded steps of executions. */
  readonly steps: number
  /** Streams that executions have written. */
  readonly streams: number
  /** Signals, asks, heartbeats and other waits of executions. */
  readonly waits: number
  /** Tags of executions. */
  readonly tags: number
}

/** A job of a subject that has not ended, and cannot be erased before. */
export interface Unfinished {
  readonly id: JobId
  readonly kind: string
  readonly execution: string | undefined
  readonly running: boolean
  /** Whether it was asked to stop. */
  readonly asked: boolean
}

/**
 * Erases what jobs and executions of a subject hold: payload, result, progress, errors, meta, keys, logs, journal, signals, tags and
 * streams. Id, kind, queue, state, reason, attempts and times stay. Each job is erased in one transaction with all that belongs
 * to it. An erased job cannot run again, and no longer has a subject.
 */
export class Erasure extends Context.Tag("nightshift/queue/Erasure")<
  Erasure,
  {
    /** Counts what is stored of the jobs of the subject. */
    readonly held: (subject: SubjectDigest) => Effect.Effect<HeldByJobs, DatabaseError>

    /** Jobs of the subject that have not ended, those that were not asked to stop first. */
    readonly unfinished: (
      subject: SubjectDigest,
      limit: number
    ) => Effect.Effect<ReadonlyArray<Unfinished>, DatabaseError>

    /** Erases jobs that have ended. */
    readonly erase: Erase

    /**
     * Erases the text of the subject where operators have quoted it: audit entries, filters of bulk operations and saved
     * views. Or counts these. Jobs that are erased take the entries about them along.
     */
    readonly quotes: (subject: string, act: "count" | "erase") => Effect.Effect<number, DatabaseError>
  }
>() {}

/** The id of an erased execution, by which its page is found. */
export const erasedExecution = (id: JobId): string => `erased:${id}`

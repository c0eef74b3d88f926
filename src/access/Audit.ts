import { Context, type Duration, type Effect } from "effect"
import type { BadCursor } from "../core/BadCursor.js"
import { storableJson, storableText } from "../core/Storable.js"
import type { DatabaseError } from "../database/DatabaseError.js"

/** A change made by an operator. */
export interface AuditedChange {
  /** The id of the entry. An action on one job has the id to undo it with. [a new id] */
  readonly id?: string | undefined
  readonly who: string
  /** The action, such as `job.cancel`. */
  readonly act: string
  /** The id or name of the changed object. */
  readonly target: string
  readonly reason?: string | undefined
  /** The relevant state before and after the change. */
  readonly before?: unknown
  readonly after?: unknown
}

export interface AuditEntry extends AuditedChange {
  readonly id: string
  /** Epoch milliseconds. */
  readonly at: number
}

export interface AuditFilter {
  readonly who?: string | undefined
  /** The action or its dotted prefix: `job` also matches `job.cancel`. */
  readonly act?: string | undefined
  readonly target?: string | undefined
  /** Inclusive start and exclusive end, in epoch milliseconds. */
  readonly since?: number | undefined
  readonly until?: number | undefined
}

export interface AuditPage {
  /** Newest first. */
  readonly entries: ReadonlyArray<AuditEntry>
  readonly next: string | undefined
}

/** Maximum stored length of each field, in characters. */
const limits = { name: 200, target: 600, reason: 1_000, state: 16 * 1024 } as const

/** Truncates a change to the stored lengths. `before` and `after` become JSON text. */
export const kept = (change: AuditedChange) => ({
  who: storableText(change.who, limits.name),
  act: storableText(change.act, limits.name),
  target: storableText(change.target, limits.target),
  reason: change.reason === undefined ? null : storableText(change.reason, limits.reason),
  before: storableJson(change.before, limits.state),
  after: storableJson(change.after, limits.state)
})

/** The audit log: who changed what, when and why. */
export class Audit extends Context.Tag("nightshift/access/Audit")<
  Audit,
  {
    /**
     * Stores an entry. Joins the caller's transaction, if there is one, so the entry exists only if the change commits.
     */
    readonly record: (change: AuditedChange) => Effect.Effect<void, DatabaseError>

    /** Returns a page of at most `limit` entries, newest first. `cursor` comes from the previous page. */
    readonly list: (
      filter: AuditFilter,
      page: { readonly limit: number; readonly cursor?: string | undefined }
    ) => Effect.Effect<AuditPage, BadCursor | DatabaseError>

    /** Deletes older entries in bounded batches. Returns the number deleted. */
    readonly purge: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>
  }
>() {}

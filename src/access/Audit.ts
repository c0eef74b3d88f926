import { Context, type Duration, type Effect } from "effect"
import type { BadCursor } from "../core/BadCursor.js"
import { storableJson, storableText } from "../core/StorableText.js"
import type { DatabaseError } from "../database/DatabaseError.js"

/** A change that an operator makes. */
export interface Deed {
  readonly who: string
  /** What was done, as in `job.cancel`. */
  readonly act: string
  /** To what: an id or a name. */
  readonly target: string
  readonly reason?: string | undefined
  /** What is worth knowing of how it was and how it became. */
  readonly before?: unknown
  readonly after?: unknown
}

export interface AuditEntry extends Deed {
  readonly id: string
  /** Epoch milliseconds. */
  readonly at: number
}

export interface AuditFilter {
  readonly who?: string | undefined
  /** The act, or the beginning of several up to a dot: `job` also means `job.cancel`. */
  readonly act?: string | undefined
  readonly target?: string | undefined
  /** At or after, and before; epoch milliseconds. */
  readonly since?: number | undefined
  readonly until?: number | undefined
}

export interface AuditPage {
  /** Newest first. */
  readonly entries: ReadonlyArray<AuditEntry>
  readonly next: string | undefined
}

/** What is kept of a deed at most, in characters. */
export const limits = { name: 200, target: 600, reason: 1_000, state: 16 * 1024 } as const

/** A deed cut to what is kept of it; states are JSON text. */
export const kept = (deed: Deed) => ({
  who: storableText(deed.who, limits.name),
  act: storableText(deed.act, limits.name),
  target: storableText(deed.target, limits.target),
  reason: deed.reason === undefined ? null : storableText(deed.reason, limits.reason),
  before: storableJson(deed.before, limits.state),
  after: storableJson(deed.after, limits.state)
})

/** Who changed what, when and why. */
export class Audit extends Context.Tag("nightshift/access/Audit")<
  Audit,
  {
    /** Writes down a deed. Part of the caller's transaction where there is one, so that it stands if and only if the change does. */
    readonly record: (deed: Deed) => Effect.Effect<void, DatabaseError>

    /** A page of at most `limit` entries, newest first, from a cursor of the page before. */
    readonly list: (
      filter: AuditFilter,
      page: { readonly limit: number; readonly cursor?: string | undefined }
    ) => Effect.Effect<AuditPage, BadCursor | DatabaseError>

    /** Forgets what was done longer ago than this, in bounded batches. Returns how many entries went. */
    readonly purge: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>
  }
>() {}

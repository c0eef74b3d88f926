import { Clock, Duration, Effect, Schema } from "effect"
import type { Audit, AuditEntry } from "../../access/Audit.js"
import { Expected } from "../../core/ExpectedError.js"
import { pageLimits } from "../Contract.js"

// Incidents that an operator has hidden for a while. The audit log is their only record: the newest entry of an incident
// says whether it is snoozed.

/** The longest snooze. Older audit entries are not read. */
export const maxSnooze = Duration.days(7)

/** What is stored with a snooze. */
export interface Snoozed {
  /** The incident in words. */
  readonly text: string
  /** Epoch milliseconds. */
  readonly until: number
  /** How many jobs it concerned. */
  readonly jobs: number
}

export interface Snooze extends Snoozed {
  readonly id: string
  readonly incident: string
  readonly at: number
  readonly who: string
  readonly reason: string
}

export const acts = { snooze: "incident.snooze", wake: "incident.wake" } as const

/** The snooze does not exist or has ended. */
export class SnoozeNotFound extends Expected<SnoozeNotFound>(404)("SnoozeNotFound", { id: Schema.String }) {
  override get message(): string {
    return `There is no snooze ${this.id.slice(0, 64)}. It may have ended; reload the list.`
  }
}

const isSnoozed = Schema.is(Schema.Struct({ text: Schema.String, until: Schema.Number, jobs: Schema.Number }))

const snoozeOf = ({ after, at, id, reason = "", target, who }: AuditEntry): ReadonlyArray<Snooze> =>
  isSnoozed(after) ? [{ id, incident: target, at, who, reason, ...after }] : []

/** Entries may become visible this much later than their time, in milliseconds: in a long transaction, or on a replica. */
const overlap = Duration.toMillis("1 hour")

/**
 * Returns an effect with the snoozes that have not ended, newest first. Its first run reads the audit entries of a week, later ones
 * those since the hour before the last run.
 */
export const make = (
  audit: typeof Audit.Service
): Effect.Effect<ReadonlyArray<Snooze>, Effect.Effect.Error<ReturnType<typeof audit.list>>> => {
  let newest: ReadonlyMap<string, AuditEntry> = new Map()
  let readAt = Number.NEGATIVE_INFINITY
  return Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const earliest = now - Duration.toMillis(maxSnooze)
    const filter = { act: "incident", since: Math.max(earliest, readAt - overlap) }
    const found = new Map<string, AuditEntry>()
    let cursor: string | undefined
    do {
      const page = yield* audit.list(filter, { limit: pageLimits.max, cursor })
      for (const entry of page.entries) if (!found.has(entry.target)) found.set(entry.target, entry)
      cursor = page.next
    } while (cursor !== undefined)
    newest = new Map([...newest, ...found].filter(([, { at }]) => at >= earliest))
    readAt = now
    return [...newest.values()]
      .sort((one, other) => (one.id > other.id ? -1 : 1))
      .filter(({ act }) => act === acts.snooze)
      .flatMap(snoozeOf)
      .filter(({ until }) => until > now)
  })
}

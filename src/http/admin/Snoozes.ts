import { Clock, Duration, Effect, Schema } from "effect"
import { Audit, type AuditEntry } from "../../access/Audit.js"
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

/** The snoozes that have not ended, newest first. */
export const current = Effect.gen(function* () {
  const audit = yield* Audit
  const now = yield* Clock.currentTimeMillis
  const filter = { act: "incident", since: now - Duration.toMillis(maxSnooze) }
  const newest = new Map<string, AuditEntry>()
  let cursor: string | undefined
  do {
    const page = yield* audit.list(filter, { limit: pageLimits.max, cursor })
    for (const entry of page.entries) if (!newest.has(entry.target)) newest.set(entry.target, entry)
    cursor = page.next
  } while (cursor !== undefined)
  return [...newest.values()]
    .filter(({ act }) => act === acts.snooze)
    .flatMap(snoozeOf)
    .filter(({ until }) => until > now)
})

import { createHash } from "node:crypto"
import { Either } from "effect"
import type { JobId } from "../core/Ids.js"
import type { Missed, Overlap } from "./Policies.js"
import type { ScheduleDefinition, ScheduleField } from "./ScheduleDefinition.js"
import * as Definition from "./ScheduleDefinition.js"
import type { InvalidSchedule } from "./ScheduleErrors.js"

/** A schedule as it is stored, whole. Instants are epoch milliseconds. */
export interface StoredSchedule extends ScheduleDefinition {
  /** Who made it. */
  readonly origin: "code" | "operator"
  /** What an operator has changed since, and code therefore leaves alone. */
  readonly edited: ReadonlyArray<ScheduleField>
  /** When it fires next; absent until a scheduler has seen it. */
  readonly nextFireAt: number | undefined
  readonly lastFireAt: number | undefined
  /** The last tick that was passed over because the job before was not over. */
  readonly lastSkipAt: number | undefined
  readonly lastError: string | undefined
  readonly lastJobId: JobId | undefined
  readonly createdAt: number
  readonly updatedAt: number
  /** Rises with every write, so that who has read it can tell whether it is still so. */
  readonly revision: number
}

/** The same with what only the tables know. */
export interface ScheduleRow extends StoredSchedule {
  /** Tells what code declared last from what it declares now. */
  readonly fingerprint: string | undefined
  /** An operator removed what code had declared; the row keeps code from bringing it back. */
  readonly removedAt: number | undefined
}

/** What an operator wants changed. What is absent stays; `null` sets it back to the kind's own. */
export interface ScheduleEdit {
  readonly kind?: string | undefined
  readonly payload?: unknown
  readonly cron?: string | undefined
  readonly timezone?: string | undefined
  readonly overlap?: Overlap | undefined
  readonly missed?: Missed | undefined
  readonly enabled?: boolean | undefined
  readonly queue?: string | null | undefined
  readonly maxAttempts?: number | null | undefined
}

const fields: ReadonlyArray<ScheduleField> = [
  "kind",
  "payload",
  "cron",
  "timezone",
  "queue",
  "maxAttempts",
  "overlap",
  "missed",
  "enabled"
]

const fingerprintOf = (definition: ScheduleDefinition): string =>
  createHash("sha256")
    .update(JSON.stringify([definition.name, ...fields.map((field) => definition[field] ?? null)]))
    .digest("hex")

const sorted = (_: string, value: unknown): unknown =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1)))
    : value

/** The same text for what `jsonb` calls equal; none for what is no JSON, which is refused later and with a reason. */
const canonical = (value: unknown): string | undefined =>
  Either.getOrUndefined(Either.try(() => JSON.stringify(value ?? null, sorted)))

const differs = (a: ScheduleDefinition, b: ScheduleDefinition) => (field: ScheduleField) =>
  canonical(a[field]) !== canonical(b[field])

/** A definition as a fresh row. It does not fire before its next time. */
export const created = (
  definition: ScheduleDefinition,
  origin: StoredSchedule["origin"],
  now: number
): Either.Either<ScheduleRow, InvalidSchedule> =>
  Either.map(Definition.admit(definition), (expression) => ({
    ...definition,
    origin,
    edited: [],
    nextFireAt: expression.next(now),
    lastFireAt: undefined,
    lastSkipAt: undefined,
    lastError: undefined,
    lastJobId: undefined,
    createdAt: now,
    updatedAt: now,
    // Not from 1: a schedule made anew under its old name must not be taken for the old one.
    revision: now,
    fingerprint: origin === "code" ? fingerprintOf(definition) : undefined,
    removedAt: undefined
  }))

/** The row with another definition. Where that changes when it fires, it fires next at its next time from now. */
const redefined = (
  row: ScheduleRow,
  definition: ScheduleDefinition,
  now: number
): Either.Either<ScheduleRow, InvalidSchedule> => {
  const changed = fields.filter(differs(row, definition))
  const next = { ...row, ...definition, updatedAt: now, revision: row.revision + 1 }
  // A schedule that is broken may still be switched off.
  if (!definition.enabled && changed.every((field) => field === "enabled")) return Either.right(next)
  const retimed = changed.some((field) => field === "cron" || field === "timezone" || field === "enabled")
  return Either.map(Definition.admit(definition), (expression) =>
    retimed ? { ...next, nextFireAt: expression.next(now), lastError: undefined } : next
  )
}

/** What becomes of a schedule that code declares; nothing where all stays as it is. */
export const declared = (
  row: ScheduleRow | undefined,
  definition: ScheduleDefinition,
  now: number
): Either.Either<ScheduleRow | undefined, InvalidSchedule> => {
  if (row === undefined) return created(definition, "code", now)
  // Also where the row stays as it is: whoever wrote the declaration should hear of it.
  const admitted = Definition.admit(definition)
  if (Either.isLeft(admitted)) return Either.left(admitted.left)
  const fingerprint = fingerprintOf(definition)
  const isOurs = row.origin === "code" && row.removedAt === undefined
  if (!isOurs || row.fingerprint === fingerprint) return Either.right(undefined)
  const of = (field: ScheduleField): ScheduleDefinition => (row.edited.includes(field) ? row : definition)
  const merged: ScheduleDefinition = {
    name: row.name,
    kind: of("kind").kind,
    payload: of("payload").payload,
    cron: of("cron").cron,
    timezone: of("timezone").timezone,
    queue: of("queue").queue,
    maxAttempts: of("maxAttempts").maxAttempts,
    overlap: of("overlap").overlap,
    missed: of("missed").missed,
    enabled: of("enabled").enabled
  }
  return Either.map(redefined(row, merged, now), (next) => ({ ...next, fingerprint }))
}

/** The row as an operator wants it. */
export const edited = (
  row: ScheduleRow,
  edit: ScheduleEdit,
  now: number
): Either.Either<ScheduleRow, InvalidSchedule> => {
  const definition: ScheduleDefinition = {
    name: row.name,
    kind: edit.kind ?? row.kind,
    payload: edit.payload === undefined ? row.payload : edit.payload,
    cron: edit.cron ?? row.cron,
    timezone: edit.timezone ?? row.timezone,
    queue: edit.queue === undefined ? row.queue : (edit.queue ?? undefined),
    maxAttempts: edit.maxAttempts === undefined ? row.maxAttempts : (edit.maxAttempts ?? undefined),
    overlap: edit.overlap ?? row.overlap,
    missed: edit.missed ?? row.missed,
    enabled: edit.enabled ?? row.enabled
  }
  const changed = fields.filter(differs(row, definition))
  if (changed.length === 0) return Either.right(row)
  return Either.map(redefined(row, definition, now), (next) => ({
    ...next,
    edited: row.origin === "code" ? fields.filter((field) => row.edited.includes(field) || changed.includes(field)) : []
  }))
}

/** What is left of a schedule that an operator removes: of a name that code has declared, a row that keeps it away. */
export const removed = (row: ScheduleRow, now: number): ScheduleRow | undefined =>
  row.fingerprint === undefined ? undefined : { ...row, removedAt: now, updatedAt: now, revision: row.revision + 1 }

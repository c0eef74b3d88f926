import { createHash } from "node:crypto"
import { Either, Struct } from "effect"
import { canonicalJson } from "../core/CanonicalJson.js"
import type { SubjectDigest } from "../core/Subject.js"
import * as Definition from "./ScheduleDefinition.js"
import type { InvalidSchedule } from "./ScheduleErrors.js"
import type { Missed, Overlap, ScheduleDefinition, ScheduleField, StoredSchedule } from "./ScheduleSettings.js"

export type { StoredSchedule }

/** The stored row, with columns that callers do not see. */
export interface ScheduleRow extends StoredSchedule {
  /** Hash of the last declaration in code, to detect changes. */
  readonly fingerprint: string | undefined
  /** Set when an operator removed a declared schedule. The row prevents code from recreating it. */
  readonly removedAt: number | undefined
}

/** A copy of a row with the layout of all others, like that of a job's row (see JobRowMemory). */
export const uniform = (row: ScheduleRow): ScheduleRow => ({
  name: row.name,
  kind: row.kind,
  payload: row.payload,
  cron: row.cron,
  timezone: row.timezone,
  queue: row.queue,
  attempts: row.attempts,
  subject: row.subject,
  overlap: row.overlap,
  missed: row.missed,
  paused: row.paused,
  origin: row.origin,
  edited: row.edited,
  nextFireAt: row.nextFireAt,
  lastFireAt: row.lastFireAt,
  lastSkipAt: row.lastSkipAt,
  lastError: row.lastError,
  lastJobId: row.lastJobId,
  createdAt: row.createdAt,
  updatedAt: row.updatedAt,
  revision: row.revision,
  fingerprint: row.fingerprint,
  removedAt: row.removedAt
})

/** An operator's edit. Absent fields stay unchanged; `null` resets a field to the kind's default, or to no subject. */
export interface ScheduleEdit {
  readonly kind?: string | undefined
  readonly payload?: unknown
  readonly cron?: string | undefined
  readonly timezone?: string | undefined
  readonly overlap?: Overlap | undefined
  readonly missed?: Missed | undefined
  readonly paused?: boolean | undefined
  readonly queue?: string | null | undefined
  readonly attempts?: number | null | undefined
  readonly subject?: SubjectDigest | null | undefined
}

const fields: ReadonlyArray<ScheduleField> = [
  "kind",
  "payload",
  "cron",
  "timezone",
  "queue",
  "attempts",
  "overlap",
  "missed",
  "paused",
  "subject"
]

/** Without a subject, as in releases that have none: a declaration must not change with the release. */
const hashed = ({ subject }: ScheduleDefinition) =>
  subject === undefined ? fields.filter((field) => field !== "subject") : fields

const fingerprintOf = (definition: ScheduleDefinition): string =>
  createHash("sha256")
    .update(JSON.stringify([definition.name, ...hashed(definition).map((field) => definition[field] ?? null)]))
    .digest("hex")

/** Undefined if the value is not JSON; validation rejects it later with a reason. */
const canonical = (value: unknown): string | undefined =>
  Either.getOrUndefined(Either.try(() => canonicalJson(value ?? null)))

const differs = (a: ScheduleDefinition, b: ScheduleDefinition) => (field: ScheduleField) =>
  canonical(a[field]) !== canonical(b[field])

/** Creates a row from a definition. It first fires at its next time after now. */
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
    // Starts at the current time instead of 1, so that a recreated schedule is never mistaken for an earlier one of the
    // same name.
    revision: now,
    fingerprint: origin === "code" ? fingerprintOf(definition) : undefined,
    removedAt: undefined
  }))

/** Returns the row with a new definition. If its fire times change, it fires next at its next time after now. */
const redefined = (
  row: ScheduleRow,
  definition: ScheduleDefinition,
  now: number
): Either.Either<ScheduleRow, InvalidSchedule> => {
  const changed = fields.filter(differs(row, definition))
  const next = { ...row, ...definition, updatedAt: now, revision: row.revision + 1 }
  // An invalid schedule can still be paused.
  if (definition.paused && changed.every((field) => field === "paused")) return Either.right(next)
  const retimed = changed.some((field) => field === "cron" || field === "timezone" || field === "paused")
  return Either.map(Definition.admit(definition), (expression) =>
    retimed ? { ...next, nextFireAt: expression.next(now), lastError: undefined } : next
  )
}

/** Applies a declaration to a row. Returns undefined if nothing changes. */
export const declared = (
  row: ScheduleRow | undefined,
  definition: ScheduleDefinition,
  now: number
): Either.Either<ScheduleRow | undefined, InvalidSchedule> => {
  if (row === undefined) return created(definition, "code", now)
  // Validates even if the row stays unchanged, so that an invalid declaration is always reported.
  const admitted = Definition.admit(definition)
  if (Either.isLeft(admitted)) return Either.left(admitted.left)
  const fingerprint = fingerprintOf(definition)
  const isOurs = row.origin === "code" && row.removedAt === undefined
  if (!isOurs || row.fingerprint === fingerprint) return Either.right(undefined)
  const merged: ScheduleDefinition = { ...definition, ...Struct.pick(row, ...row.edited) }
  return Either.map(redefined(row, merged, now), (next) => ({ ...next, fingerprint }))
}

/** Applies an operator's edit to a row. */
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
    attempts: edit.attempts === undefined ? row.attempts : (edit.attempts ?? undefined),
    subject: edit.subject === undefined ? row.subject : (edit.subject ?? undefined),
    overlap: edit.overlap ?? row.overlap,
    missed: edit.missed ?? row.missed,
    paused: edit.paused ?? row.paused
  }
  const changed = fields.filter(differs(row, definition))
  if (changed.length === 0) return Either.right(row)
  return Either.map(redefined(row, definition, now), (next) => ({
    ...next,
    edited: row.origin === "code" ? fields.filter((field) => row.edited.includes(field) || changed.includes(field)) : []
  }))
}

/**
 * Returns the row to keep after an operator removes a schedule. Only a schedule declared in code leaves a row behind.
 */
export const removed = (row: ScheduleRow, now: number): ScheduleRow | undefined =>
  row.fingerprint === undefined ? undefined : { ...row, removedAt: now, updatedAt: now, revision: row.revision + 1 }

/** Returns the row to keep after the subject of a schedule was erased. */
export const erased = (row: ScheduleRow, now: number): ScheduleRow | undefined => {
  const kept = removed(row, now)
  return kept === undefined
    ? undefined
    : { ...kept, payload: null, subject: undefined, lastError: undefined, paused: true }
}

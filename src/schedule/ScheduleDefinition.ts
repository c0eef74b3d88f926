import { Either, Predicate } from "effect"
import * as Storable from "../core/Storable.js"
import { limits } from "../core/StoredJob.js"
import type { SubjectDigest } from "../core/Subject.js"
import { digestOf, subjectCharacters } from "../database/SubjectText.js"
import { at, type Fault } from "../queue/NewJob.js"
import * as Expression from "./Expression.js"
import { maxMissedRuns } from "./Policies.js"
import { InvalidSchedule } from "./ScheduleErrors.js"
import type { Missed, ScheduleDefinition, ScheduleField } from "./ScheduleSettings.js"

export type { ScheduleDefinition, ScheduleField }

export const defaults = { timezone: "UTC", overlap: "allow", missed: "one", paused: false } as const

/** Lower than the limit for jobs, because lists of schedules include the payloads. */
const payloadBytes = 64 * 1024

const got = (isValid: boolean, expected: string, value: unknown): string | undefined =>
  isValid ? undefined : `must be ${expected}, got ${Storable.shown(value)}`

const faultOfMissed = (missed: Missed) =>
  Predicate.isRecord(missed)
    ? at("missed.all", Storable.faultOfWhole(missed.all, 1, maxMissedRuns))
    : at("missed", got(missed === "one" || missed === "none", '"one", "none" or { all: 7 }', missed))

const faultOfSubject = (subject: string) => Storable.faultOfText(subject, subjectCharacters)

/** The digest of a subject. An invalid subject stays as it is, and `admit` refuses it. */
export const digestOfSubject = (subject: string | undefined): SubjectDigest | undefined =>
  subject === undefined || faultOfSubject(subject) !== undefined ? subject : digestOf(subject)

/** Programs in JavaScript may pass values of other types. */
const faultOf = (definition: ScheduleDefinition): Fault | undefined => {
  const { kind, attempts, cron, missed, name, overlap, paused, payload, queue, subject, timezone } = definition
  return (
    at("name", Storable.isPlainName(name) ? undefined : Storable.plainNameRule) ??
    at("kind", Storable.faultOfKind(kind)) ??
    at("queue", queue === undefined || Storable.isPlainName(queue) ? undefined : Storable.plainNameRule) ??
    at("attempts", attempts === undefined ? undefined : Storable.faultOfWhole(attempts, 1, limits.attempts)) ??
    at("subject", subject === undefined ? undefined : faultOfSubject(subject)) ??
    at("cron", got(typeof cron === "string", "a string", cron)) ??
    at("timezone", got(typeof timezone === "string", "a string", timezone)) ??
    at("overlap", got(overlap === "allow" || overlap === "skip", '"allow" or "skip"', overlap)) ??
    faultOfMissed(missed) ??
    at("paused", got(typeof paused === "boolean", "true or false", paused)) ??
    at("payload", Either.getOrUndefined(Either.flip(Storable.jsonText(payload, payloadBytes))))
  )
}

/** Parses the expression of a definition. */
export const expressionOf = (
  definition: Pick<ScheduleDefinition, "name" | "cron" | "timezone">
): Either.Either<Expression.Expression, InvalidSchedule> =>
  Either.mapLeft(Expression.parse(definition.cron, definition.timezone), (error) =>
    InvalidSchedule.ofExpression(definition.name, error)
  )

/** Validates a definition and returns its expression, or the invalid field. */
export const admit = (definition: ScheduleDefinition): Either.Either<Expression.Expression, InvalidSchedule> => {
  const fault = faultOf(definition)
  if (fault === undefined) return expressionOf(definition)
  const [field, reason] = fault
  return Either.left(new InvalidSchedule({ name: String(definition.name), field, reason }))
}

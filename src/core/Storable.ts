import { Duration, Either } from "effect"
import { isDeeperThan } from "./Nesting.js"
import { limits } from "./StoredJob.js"

// What can be stored: text that PostgreSQL has bytes for, JSON of a bounded size, names that are also fit for a url, a metric
// label and a file. Each check answers with the reason against it, as the end of a sentence that begins with the field.

/** A name of a queue or a schedule. */
export const isPlainName = (name: string): boolean => /^[A-Za-z0-9_.-]{1,64}$/.test(name)

export const plainNameRule = "must be 1 to 64 letters, digits, _, . or -"

/** Half of a surrogate pair, which UTF-8 has no bytes for. */
const loneSurrogate = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/

/** Text that PostgreSQL cannot store. */
export const isUnstorable = (text: string) => text.includes("\u0000") || loneSurrogate.test(text)

/** The same inside of JSON text, where `JSON.stringify` has written it as escapes. */
const unstorableEscape = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f][0-9a-f]{2})/

/** A reason why this cannot stand in the field, or nothing. */
export const faultOfText = (text: string, most: number): string | undefined => {
  if (text.length === 0) return "must not be empty"
  if (text.length > most) return `must be at most ${most} characters long`
  return isUnstorable(text) ? "must not contain NUL or an unpaired surrogate" : undefined
}

export const faultOfWhole = (value: number, min: number, max: number): string | undefined =>
  Number.isInteger(value) && value >= min && value <= max ? undefined : `must be a whole number from ${min} to ${max}`

/** Why a wait of this length is invalid, or undefined. */
export const faultOfWait = (wait: Duration.Duration): string | undefined =>
  Duration.lessThanOrEqualTo(wait, Duration.days(limits.waitDays))
    ? undefined
    : `must be at most ${limits.waitDays} days, not ${Duration.isFinite(wait) ? `${Math.floor(Duration.toDays(wait))} days` : "infinite"}`

/** The years that every PostgreSQL, every JavaScript engine and RFC 3339 can write. */
const instants = { first: 0, last: 253_402_300_799_999 }

/** Why this cannot be the start of a job, or nothing. */
export const faultOfInstant = (millis: number): string | undefined =>
  millis >= instants.first && millis < instants.last + 1 ? undefined : "must be an instant of the years 1970 to 9999"

/** An instant that was written past our checks, `infinity` among them, as the nearest that can be shown. */
export const showableInstant = (millis: number): number => Math.min(Math.max(millis, instants.first), instants.last)

/** A number that `JSON.stringify` writes as null. Plain loops: every payload with a null in it passes here. */
const hasNoNumber = (value: unknown): boolean => {
  if (typeof value === "number") return !Number.isFinite(value)
  if (typeof value !== "object" || value === null) return false
  if (Array.isArray(value)) {
    for (const each of value) if (hasNoNumber(each)) return true
    return false
  }
  if ("toJSON" in value) return false
  for (const key in value) if (hasNoNumber((value as Readonly<Record<string, unknown>>)[key])) return true
  return false
}

/** A value as JSON text, or why it cannot be that. */
export const jsonText = (value: unknown, mostBytes: number): Either.Either<string, string> => {
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (error) {
    return Either.left(`cannot be written as JSON (${error instanceof Error ? error.message.split("\n")[0] : error})`)
  }
  if (text === undefined) return Either.left("must be a JSON value")
  if (text.length > mostBytes || (text.length > mostBytes / 3 && Buffer.byteLength(text) > mostBytes)) {
    return Either.left(`is larger than ${mostBytes} bytes as JSON`)
  }
  if (text.includes("\\u") && unstorableEscape.test(text)) {
    return Either.left("must not contain NUL or an unpaired surrogate")
  }
  // Every level takes two characters.
  if (text.length > 2 * limits.nesting && isDeeperThan(value, limits.nesting))
    return Either.left(`must not be nested more than ${limits.nesting} levels deep`)
  if (text.includes("null") && hasNoNumber(value)) return Either.left("must not contain NaN or Infinity")
  return Either.right(text)
}

import { Duration, Either } from "effect"
import { mayLoseNumber } from "./JsonNumbers.js"
import * as Sealed from "./Sealed.js"
import { limits } from "./StoredJob.js"

// Values nested thousands of levels deep overflow the stack in JSON.stringify, in jsonb and in schema decoding.

/**
 * Whether a value has more than `levels` levels of arrays and objects. Uses plain loops because every large payload is
 * checked here.
 */
export const isDeeperThan = (value: unknown, levels: number): boolean => {
  if (typeof value !== "object" || value === null) return false
  if (levels === 0) return true
  if (Array.isArray(value)) {
    for (const each of value) if (isDeeperThan(each, levels - 1)) return true
    return false
  }
  for (const key in value) {
    if (isDeeperThan((value as Readonly<Record<string, unknown>>)[key], levels - 1)) return true
  }
  return false
}

/** Returns the value, or a placeholder if it is nested too deeply to print. */
export const showable = (value: unknown): unknown =>
  isDeeperThan(value, limits.nesting) ? `[nested more than ${limits.nesting} levels deep]` : value

// Validation of values before they are stored: text that PostgreSQL can encode, JSON of bounded size, and names that
// are also safe in URLs, metric labels and file names. Each check returns the reason for the rejection; the caller puts
// the field's name in front.

/** Formats a value of any type for a message, truncated to 60 characters. */
export const shown = (value: unknown): string => {
  if (Array.isArray(value)) return "an array"
  if (typeof value === "object" && value !== null) return "an object"
  const text =
    typeof value === "string" ? JSON.stringify(value) : typeof value === "function" ? "a function" : String(value)
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}

/** In a path, browsers and HTTP clients remove these names, even if they are encoded. */
const pathDots = /^\.{1,2}$/

/** Whether the text is a valid name for a queue or a schedule. Programs in JavaScript may pass other values. */
export const isPlainName = (name: string): boolean =>
  typeof name === "string" && /^[A-Za-z0-9_.-]{1,64}$/.test(name) && !pathDots.test(name)

export const plainNames = '1 to 64 letters, digits, _, . or -, but not "." or ".."'
export const plainNameRule = `must be ${plainNames}`

/** Half a surrogate pair, which UTF-8 cannot encode. */
const loneSurrogate = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/

/** Whether PostgreSQL cannot store the text. */
export const isUnstorable = (text: string) => text.includes("\u0000") || loneSurrogate.test(text)

/** Unstorable characters as `JSON.stringify` escapes them. */
const unstorableEscape = /(?<!\\)((?:\\\\)*)\\u(?:0000|d[89a-f][0-9a-f]{2})/

/** Returns why the text is invalid, or undefined. */
export const faultOfText = (text: string, maxCharacters: number): string | undefined => {
  if (typeof text !== "string") return `must be a string, got ${shown(text)}`
  if (text.length === 0) return "must not be empty"
  if (text.length > maxCharacters) return `must be at most ${maxCharacters} characters long`
  return isUnstorable(text) ? "must not contain NUL characters or unpaired surrogates" : undefined
}

/** Returns why the name of a kind is invalid, or undefined. */
export const faultOfKind = (name: string): string | undefined =>
  faultOfText(name, limits.nameCharacters) ?? (pathDots.test(name) ? 'must not be "." or ".."' : undefined)

export const faultOfWhole = (value: number, min: number, max: number): string | undefined =>
  Number.isInteger(value) && value >= min && value <= max
    ? undefined
    : `must be a whole number from ${min} to ${max}, got ${shown(value)}`

/** Returns why the delay is invalid, or undefined. */
export const faultOfWait = (wait: Duration.Duration): string | undefined =>
  Duration.lessThanOrEqualTo(wait, Duration.days(limits.waitDays))
    ? undefined
    : `must be at most ${limits.waitDays} days, got ${Duration.isFinite(wait) ? `${Math.floor(Duration.toDays(wait))} days` : "infinite"}`

/** The range that PostgreSQL, JavaScript and RFC 3339 all support: years 1970 to 9999. */
const instants = { first: 0, last: 253_402_300_799_999 }

/** Returns why a job cannot start at this instant, or undefined. */
export const faultOfInstant = (millis: number): string | undefined =>
  millis >= instants.first && millis < instants.last + 1 ? undefined : "must be between the years 1970 and 9999"

/**
 * Clamps an instant to the supported range. Rows written directly with SQL can hold other values, such as `infinity`.
 */
export const showableInstant = (millis: number): number => Math.min(Math.max(millis, instants.first), instants.last)

/**
 * Whether the value contains NaN or Infinity, which `JSON.stringify` writes as null. Uses plain loops because every
 * payload that contains a null is checked here.
 */
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

/**
 * Whether the value contains a Map or a Set, which `JSON.stringify` writes as {}. The value must have no cycles. Uses plain
 * loops because every payload that contains an empty object is checked here.
 */
export const hasCollection = (value: unknown): boolean => {
  if (typeof value !== "object" || value === null || "toJSON" in value) return false
  if (value instanceof Map || value instanceof Set) return true
  if (Array.isArray(value)) {
    for (const each of value) if (hasCollection(each)) return true
    return false
  }
  for (const key in value) if (hasCollection((value as Readonly<Record<string, unknown>>)[key])) return true
  return false
}

/** Unstorable characters in the escapes of any sender. Also matches paired surrogates, which could be stored. */
const sentEscape = /\\u(?:0000|d[89a-f][0-9a-f]{2})/i

/** Whether JSON text can be stored as it is: PostgreSQL and JavaScript read the same value from it. */
const isStorableJson = (text: string, maxBytes: number): boolean =>
  text.length <= maxBytes / 3 && !(text.includes("\\u") && sentEscape.test(text)) && !mayLoseNumber(text)

/**
 * Encodes a value as JSON text, or returns why it cannot be stored. Returns `source`, the text that the
 * value was parsed from, if that can be stored.
 */
export const jsonText = (value: unknown, maxBytes: number, source?: string): Either.Either<string, string> => {
  let text: string | undefined
  try {
    text = source !== undefined && isStorableJson(source, maxBytes) ? source : JSON.stringify(value)
  } catch (error) {
    return Either.left(`cannot be encoded as JSON (${error instanceof Error ? error.message.split("\n")[0] : error})`)
  }
  if (text === undefined) return Either.left("must be a JSON value")
  if (text.length > maxBytes || (text.length > maxBytes / 3 && Buffer.byteLength(text) > maxBytes)) {
    const bytes = Buffer.byteLength(text)
    if (bytes > Sealed.roomFor(value, maxBytes))
      return Either.left(`must be at most ${maxBytes} bytes as JSON, got ${bytes}`)
  }
  if (text.includes("\\u") && unstorableEscape.test(text)) {
    return Either.left("must not contain NUL characters or unpaired surrogates")
  }
  // Each level takes at least two characters, so shorter text cannot be too deep.
  if (text.length > 2 * limits.nesting && isDeeperThan(value, limits.nesting))
    return Either.left(`must not be nested more than ${limits.nesting} levels deep`)
  if (text.includes("null") && hasNoNumber(value)) return Either.left("must not contain NaN or Infinity")
  if (text.includes("{}") && hasCollection(value))
    return Either.left("must not contain a Map or a Set, which JSON cannot express: use an object or an array")
  return Either.right(text)
}

const loneSurrogates = new RegExp(loneSurrogate, "g")

/** Truncates text without splitting a surrogate pair. */
export const truncated = (text: string, characters: number): string => {
  if (text.length <= characters) return text
  const last = text.charCodeAt(characters - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? characters - 1 : characters)
}

/** Truncates text and replaces characters that PostgreSQL cannot store. */
export const storableText = (text: string, characters = text.length): string =>
  // Truncates first, because that can split a surrogate pair.
  text.slice(0, characters).replaceAll("\u0000", "\ufffd").replace(loneSurrogates, "\ufffd")

const unstorableEscapes = new RegExp(unstorableEscape, "g")

/**
 * Encodes a value as JSON text that PostgreSQL can store. A value that is too large is replaced by the beginning of its
 * text.
 */
export const storableJson = (value: unknown, characters: number): string | null => {
  const text = JSON.stringify(value)
  if (text === undefined) return null
  const whole = text.length <= characters ? text : JSON.stringify({ beginning: storableText(text, characters) })
  return whole.replace(unstorableEscapes, "$1\\ufffd")
}

import { Predicate } from "effect"
import * as Setting from "../core/Setting.js"

export const settings = {
  mask: Setting.list({
    key: "NIGHTSHIFT_MASK",
    about: "Payload fields to hide from viewers and logs, separated by commas, as in `password, email`."
  })
}

export const masked = "[masked]"

/** Maximum nesting depth; deeper values are hidden entirely. */
const maxDepth = 64

export type Mask = (value: unknown) => unknown

/** Only plain objects: instances of classes define their own representation. */
const isPlain = (value: unknown): value is Readonly<Record<string, unknown>> => {
  if (!Predicate.isRecord(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** Hides fields with these names at any depth, case-insensitively. */
export const make = (names: ReadonlyArray<string>): Mask => {
  if (names.length === 0) return (value) => value
  const hidden = new Set(names.map((name) => name.toLowerCase()))
  const hide = (value: unknown, depth: number): unknown => {
    if (depth > maxDepth) return masked
    if (Array.isArray(value)) return value.map((each) => hide(each, depth + 1))
    if (!isPlain(value)) return value
    return Object.fromEntries(
      Object.entries(value).map(([name, field]) => [
        name,
        hidden.has(name.toLowerCase()) ? masked : hide(field, depth + 1)
      ])
    )
  }
  return (value) => hide(value, 0)
}

// Text has no fields. Hidden values in it are found in two ways: by the values that the related data has in hidden
// fields, and by the usual notations of a name and its value.

/** Only this much of a text is searched. A text with more hidden values than the limit is not shown at all. */
const maxTextCharacters = 16 * 1024
const maxSecrets = 256

/** Shorter values occur in any text: they are hidden only in quotes or after `actual`. */
const minBareCharacters = 3

/** Returns every value below a hidden field, as text. */
const secretsIn = (hidden: ReadonlySet<string>, data: unknown): ReadonlyArray<string> => {
  const found = new Set<string>()
  const walk = (value: unknown, isHidden: boolean, depth: number): void => {
    if (found.size > maxSecrets || depth > maxDepth) return
    if (Array.isArray(value)) for (const each of value) walk(each, isHidden, depth + 1)
    else if (isPlain(value)) {
      for (const [name, field] of Object.entries(value)) {
        walk(field, isHidden || hidden.has(name.toLowerCase()), depth + 1)
      }
    } else if (isHidden && value !== null && value !== undefined && value !== "") found.add(String(value))
  }
  walk(data, false, 0)
  // Longest first, because one value may contain another.
  return [...found].sort((a, b) => b.length - a.length)
}

const replaceSecret = (text: string, secret: string): string => {
  const quoted = JSON.stringify(secret)
  if (secret.length < minBareCharacters) {
    return text.replaceAll(quoted, `"${masked}"`).replaceAll(`actual ${secret}`, `actual ${masked}`)
  }
  return text.replaceAll(secret, masked).replaceAll(quoted.slice(1, -1), masked)
}

/**
 * `"password": "…"`, `password=…`, and the same inside quoted JSON. Repetitions are bounded, so matching time is
 * bounded too.
 */
const patternOf = (names: ReadonlyArray<string>): RegExp => {
  // Only syntax characters: with the flag u, an escape of any other character is an error.
  const words = names.map((name) => name.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("|")
  const value = String.raw`\\{0,3}"(?:[^"\\]|\\{1,3}[^"\\]){0,4096}\\{0,3}"?|'[^']{0,4096}'?|(?:\[masked\])?[^\s,;}\])"'\\]{1,4096}`
  // The value may be masked already: the text was masked before, or the value begins with one of the payload.
  const done = String.raw`\[masked\](?![^\s,;}\])"'\\])|\\{0,3}"\[masked\]\\{0,3}"|'\[masked\]'`
  const before = String.raw`(?<![\w-])((?:${words})(?:\\{0,3}["'])?\]?\s{0,4}[:=]\s{0,4})`
  return new RegExp(`${before}(?!${done})(?:${value})`, "giu")
}

/** Hides masked values in a text; `data` is where the text may have taken them from. */
export const makeText = (names: ReadonlyArray<string>): ((text: string, data?: unknown) => string) => {
  if (names.length === 0) return (text) => text
  const hidden = new Set(names.map((name) => name.toLowerCase()))
  const pattern = patternOf(names)
  return (text, data) => {
    const secrets = secretsIn(hidden, data)
    if (secrets.length > maxSecrets) return masked
    const searched = text.slice(0, maxTextCharacters)
    const cleared = secrets.reduce(replaceSecret, searched).replace(pattern, `$1${masked}`)
    // If the text was cut, its end may be the start of a hidden value.
    return searched.length === text.length ? cleared : cleared.slice(0, -Math.max(1, secrets[0]?.length ?? 1))
  }
}

/** Key under which a log annotation attaches the data that a log line refers to. */
export const dataOf: unique symbol = Symbol.for("nightshift/telemetry/Masking/data")

export const touches = (names: ReadonlyArray<string>, value: unknown): boolean => {
  const mask = make(names)
  return names.length > 0 && JSON.stringify(mask(value)) !== JSON.stringify(value)
}

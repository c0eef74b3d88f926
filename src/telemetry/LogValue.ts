import { Cause } from "effect"
import * as ErrorText from "../core/ErrorText.js"
import * as Thrown from "../core/Thrown.js"
import { masked } from "./Masking.js"

// The values of a log line as JSON. A program may log anything: circular objects, BigInts, proxies, objects of a million
// fields. The result is always finite and JSON.

/** Longer texts are cut. */
const maxCharacters = 16 * 1024
/** Arrays and objects: how many of a line, how many entries of each, and how deep. */
const maxObjects = 200
const maxEntries = 100
const maxDepth = 8

/** In place of a value that throws when it is read. */
export const unreadable = "[unreadable]"

/** The text of a cause: messages and stack traces. Never throws. */
export const causeText = (cause: Cause.Cause<unknown>): string =>
  Thrown.readCause(
    cause,
    (plain) => Cause.pretty(plain, { renderErrorCause: true }),
    () => ErrorText.ofFailure(Cause.squash(cause))
  )

/** The text of an error: its message and stack trace. Text stays as it is. */
export const errorText = (error: unknown): string => (typeof error === "string" ? error : causeText(Cause.fail(error)))

const cut = (text: string): string =>
  text.length <= maxCharacters
    ? text
    : `${text.slice(0, maxCharacters)}… (${text.length - maxCharacters} more characters)`

export interface LogValues {
  /** A text of bounded length. */
  readonly text: (text: string) => string
  /** Any value as JSON. Undefined stays undefined. */
  readonly plain: (value: unknown) => unknown
}

/** Makes the values of one line. `mask` hides secrets in a text, before the text is cut. */
export const make = (mask: (text: string) => string): LogValues => {
  let objects = 0
  const text = (given: string) => cut(mask(given))

  /** Hidden only if all of it is a secret: part of a number means nothing. */
  const number = (value: number) => {
    const shown = String(value)
    if (mask(shown) === masked) return masked
    return Number.isFinite(value) ? value : shown
  }

  const list = (values: ReadonlyArray<unknown>, above: ReadonlyArray<object>) => {
    const shown = values.slice(0, maxEntries).map((each) => plain(each, above) ?? null)
    return values.length > maxEntries ? [...shown, `… (${values.length - maxEntries} more)`] : shown
  }

  const fields = (value: object, above: ReadonlyArray<object>) => {
    const shown: Array<[string, unknown]> = []
    for (const name in value) {
      if (!Object.hasOwn(value, name)) continue
      if (shown.length === maxEntries) {
        shown.push(["…", "more fields"])
        break
      }
      shown.push([name, plain((value as Readonly<Record<string, unknown>>)[name], above)])
    }
    return Object.fromEntries(shown)
  }

  const inside = (value: object, above: ReadonlyArray<object>): unknown => {
    if (value instanceof Error) return text(errorText(value))
    if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`
    if ("toJSON" in value && typeof value.toJSON === "function") return plain(value.toJSON(), above)
    if (value instanceof Map) return fields(Object.fromEntries(value), above)
    if (value instanceof Set) return list([...value], above)
    return Array.isArray(value) ? list(value, above) : fields(value, above)
  }

  const plain = (value: unknown, above: ReadonlyArray<object>): unknown => {
    if (typeof value === "string") return text(value)
    if (typeof value === "number") return number(value)
    if (value === undefined || value === null || typeof value === "boolean") return value
    if (typeof value === "function") return `[function ${value.name}]`
    if (typeof value !== "object") return text(String(value))
    if (above.includes(value)) return "[circular]"
    objects += 1
    if (above.length === maxDepth || objects > maxObjects) return "[…]"
    try {
      return inside(value, [...above, value])
    } catch {
      return unreadable
    }
  }

  return { text, plain: (value) => plain(value, []) }
}

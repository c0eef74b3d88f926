import { Either, Predicate } from "effect"
import { isUnstorable, shown } from "../../core/Storable.js"
import type { Match } from "./Events.js"

// Equality on paths, such as { "data.order": "A-17" }: what a wait or a subscriber compares.

/** Maximum size of the values as JSON: they are part of an index. */
const maxBytes = 1_000

const isScalar = (value: unknown) =>
  value === null || typeof value === "string" || typeof value === "boolean" || Number.isFinite(value)

const unstorable = "must not contain NUL characters or unpaired surrogates"

/** The names of a path, or what is wrong with it. */
export const pathOf = (path: unknown): Either.Either<ReadonlyArray<string>, string> => {
  if (typeof path !== "string" || !/^data(\.[^.]+)+$/.test(path))
    return Either.left(`has the path ${shown(path)}: a path begins with "data.", such as "data.order"`)
  return isUnstorable(path)
    ? Either.left(`has the path ${shown(path)}: a path ${unstorable}`)
    : Either.right(path.split(".").slice(1))
}

/** Reads what was declared, or says what is wrong with it. The paths are sorted, so that equal declarations are equal. */
export const of = (declared: unknown = {}): Either.Either<Match, string> => {
  if (!Predicate.isRecord(declared))
    return Either.left(
      `must be an object of paths and values, such as { "data.order": "A-17" }, got ${shown(declared)}`
    )
  const entries = Object.entries(declared).sort(([left], [right]) => (left < right ? -1 : 1))
  const paths: Array<ReadonlyArray<string>> = []
  for (const [path, value] of entries) {
    const names = pathOf(path)
    if (Either.isLeft(names)) return Either.left(names.left)
    paths.push(names.right)
    if (!isScalar(value))
      return Either.left(`compares "${path}" with ${shown(value)}: use a string, a finite number, a boolean or null`)
    if (typeof value === "string" && isUnstorable(value))
      return Either.left(`compares "${path}" with ${shown(value)}: a value ${unstorable}`)
  }
  const values = entries.map(([, value]) => value)
  if (Buffer.byteLength(JSON.stringify(values)) > maxBytes)
    return Either.left(`has values of more than ${maxBytes} bytes as JSON`)
  return Either.right({ paths, values })
}

/** The value of a path; null if it is missing. */
export const valueAt = (data: unknown, path: ReadonlyArray<string>): unknown => {
  let value = data
  for (const name of path) {
    const isPresent = Array.isArray(value)
      ? /^\d+$/.test(name) && name in value
      : Predicate.isRecord(value) && Object.hasOwn(value, name)
    if (!isPresent) return null
    value = (value as Readonly<Record<string, unknown>>)[name]
  }
  return value
}

/** Whether the data of an event matches. The same as comparing with the SQL function `match_of`. */
export const matches = ({ paths, values }: Match, data: unknown): boolean =>
  paths.every((path, place) => valueAt(data, path) === values[place])

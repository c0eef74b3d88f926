import { type Schema, Validator } from "@cfworker/json-schema"
import { Predicate } from "effect"

// A payload is described twice: by the schema in the kind's code, which only processes with that code have, and by the
// JSON Schema that a pod stored in the kind's row. The JSON Schema check is more lenient, never stricter: a process
// without the code must not reject what the handler would accept.

export interface PayloadFault {
  /** Starts at the payload: `payload.items[2].price`. */
  readonly field: string
  readonly reason: string
}

export type PayloadCheck = (payload: unknown) => PayloadFault | undefined

export const fieldAt = (path: ReadonlyArray<PropertyKey>): string =>
  path.reduce<string>(
    (text, step) =>
      typeof step === "number" || /^\d+$/.test(String(step)) ? `${text}[${String(step)}]` : `${text}.${String(step)}`,
    "payload"
  )

/** Formats are only hints, a pattern has lost its regular expression flags, and ids would have to be unique. */
const unreliable = new Set(["format", "pattern", "$id", "$schema"])

/** `$id`s of schemas that accept any value. Such a field may also be missing, whatever the schema says. */
const anything = new Set<unknown>(["/schemas/unknown", "/schemas/any"])

const mayBeMissing = (properties: unknown, name: unknown) =>
  Predicate.isRecord(properties) &&
  Predicate.isRecord(properties[String(name)]) &&
  anything.has(Object(properties[String(name)]).$id)

/** Removes the parts of a schema that may be stricter than the handler's own. */
const lenient = (node: unknown): unknown => {
  if (Array.isArray(node)) return node.map(lenient)
  if (!Predicate.isRecord(node)) return node
  const kept = Object.entries(node).filter(([key, value]) => !unreliable.has(key) || typeof value !== "string")
  return Object.fromEntries(
    kept.map(([key, value]) => [
      key,
      key === "required" && Array.isArray(value)
        ? value.filter((name) => !mayBeMissing(node.properties, name))
        : lenient(value)
    ])
  )
}

/** Rewords a message of the validator, which calls a value an instance. */
const plainly = (error: string): string =>
  error
    .replace(/\.$/, "")
    .replace(/^Instance type "(.*)" is invalid\. Expected "(.*)"$/s, "expected $2, got $1")
    .replace(/^Instance does not have required property "(.*)"$/s, 'the field "$1" is missing')
    .replace(/^Instance /, "the value ")

const compile = (text: string): PayloadCheck => {
  const schema = lenient(JSON.parse(text)) as Schema
  const validator = new Validator(schema, "7")
  return (payload) => {
    const { errors, valid } = validator.validate(payload)
    if (valid) return undefined
    // Every level above a mismatch reports an error too; the deepest one has the cause.
    const depthOf = (location: string) => location.split("/").length
    const deepest = Math.max(...errors.map(({ instanceLocation }) => depthOf(instanceLocation)))
    const fault = errors.find(
      ({ instanceLocation, keyword }) => depthOf(instanceLocation) === deepest && keyword !== "$ref"
    )
    const path = (fault?.instanceLocation ?? "#").split("/").slice(1)
    return {
      field: fieldAt(path.map((step) => decodeURI(step).replaceAll("~1", "/").replaceAll("~0", "~"))),
      reason: plainly(fault?.error ?? "the payload does not match")
    }
  }
}

const compiled = new Map<string, PayloadCheck>()
const maxCompiledChecks = 500

/** Compiles a JSON Schema into a check. An unreadable schema accepts everything. */
export const ofSchema = (text: string): PayloadCheck => {
  const known = compiled.get(text)
  if (known !== undefined) return known
  if (compiled.size >= maxCompiledChecks) compiled.clear()
  let check: PayloadCheck = () => undefined
  try {
    const strict = compile(text)
    check = (payload) => {
      try {
        return strict(payload)
      } catch {
        return undefined
      }
    }
  } catch {
    // Written by another program, perhaps in another dialect: the handler decides.
  }
  compiled.set(text, check)
  return check
}

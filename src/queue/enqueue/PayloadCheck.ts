import { type Schema, Validator } from "@cfworker/json-schema"
import { Predicate } from "effect"

// A kind's payload is described twice: by the schema of its code, which only processes with that code have, and by the JSON
// Schema that a pod left in the kind's row. The second is more lenient, never stricter: what a handler would take must not
// be refused by a process that does not know it.

/** Where a payload does not fit, and why. */
export interface PayloadFault {
  /** From the payload on: `payload.items[2].price`. */
  readonly field: string
  readonly reason: string
}

export type PayloadCheck = (payload: unknown) => PayloadFault | undefined

/** A path inside of the payload as a person would write it. */
export const fieldAt = (path: ReadonlyArray<PropertyKey>): string =>
  path.reduce<string>(
    (text, step) =>
      typeof step === "number" || /^\d+$/.test(String(step)) ? `${text}[${String(step)}]` : `${text}.${String(step)}`,
    "payload"
  )

/** Formats are hints, and a pattern has lost the flags of its regular expression; ids would have to be unique. */
const unreliable = new Set(["format", "pattern", "$id", "$schema"])

/** What a field that may be anything is written as. Such a field may be missing as well, whatever the schema says. */
const anything = new Set<unknown>(["/schemas/unknown", "/schemas/any"])

const mayBeMissing = (properties: unknown, name: unknown) =>
  Predicate.isRecord(properties) &&
  Predicate.isRecord(properties[String(name)]) &&
  anything.has(Object(properties[String(name)]).$id)

/** The schema without what a handler's own does not say. */
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

const compile = (text: string): PayloadCheck => {
  const schema = lenient(JSON.parse(text)) as Schema
  const validator = new Validator(schema, "7")
  return (payload) => {
    const { errors, valid } = validator.validate(payload)
    if (valid) return undefined
    // Every level on the way reports that what is below does not fit: the deepest says what is wrong.
    const depthOf = (location: string) => location.split("/").length
    const deepest = Math.max(...errors.map(({ instanceLocation }) => depthOf(instanceLocation)))
    const fault = errors.find(
      ({ instanceLocation, keyword }) => depthOf(instanceLocation) === deepest && keyword !== "$ref"
    )
    const path = (fault?.instanceLocation ?? "#").split("/").slice(1)
    return {
      field: fieldAt(path.map((step) => decodeURI(step).replaceAll("~1", "/").replaceAll("~0", "~"))),
      reason: (fault?.error ?? "does not fit the schema").replace(/\.$/, "")
    }
  }
}

const compiled = new Map<string, PayloadCheck>()
const mostCompiled = 500

/** Compiles a JSON Schema into a check. A schema that the validator cannot read accepts everything. */
export const ofSchema = (text: string): PayloadCheck => {
  const known = compiled.get(text)
  if (known !== undefined) return known
  if (compiled.size >= mostCompiled) compiled.clear()
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
    // Some other program's JSON Schema: then the handler decides.
  }
  compiled.set(text, check)
  return check
}

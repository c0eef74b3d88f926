import { type Schema, Validator } from "@cfworker/json-schema"

// Validates a payload against the JSON Schema of its kind while the user types. The server's check is decisive; this one
// finds most faults earlier, with their places. Like the server, it ignores rules that may be stricter than the handler:
// formats are hints, and patterns have lost their flags.

/** A JSON object. */
export type Node = Readonly<Record<string, unknown>>

export interface Fault {
  /** Names and indexes from the payload down to the value. */
  readonly path: ReadonlyArray<string>
  readonly message: string
  /** Values that are allowed instead, as JSON. */
  readonly choices: ReadonlyArray<string>
}

export const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const unreliable = new Set(["format", "pattern", "$id", "$schema"])

const lenient = (node: unknown): unknown => {
  if (Array.isArray(node)) return node.map(lenient)
  if (!isNode(node)) return node
  return Object.fromEntries(
    Object.entries(node).flatMap(([key, value]) =>
      unreliable.has(key) && typeof value === "string" ? [] : [[key, lenient(value)]]
    )
  )
}

/** Follows a reference into the definitions of the schema. */
const resolved = (root: unknown, node: unknown): Node => {
  let at = node
  for (let hops = 0; hops < 20 && isNode(at) && typeof at.$ref === "string"; hops += 1) {
    at = at.$ref
      .split("/")
      .slice(1)
      .reduce<unknown>(
        (inner, step) => (isNode(inner) ? inner[step.replaceAll("~1", "/").replaceAll("~0", "~")] : undefined),
        root
      )
  }
  return isNode(at) ? at : {}
}

/** The schema of the value at a path, as far as it is known. */
const schemaAt = (root: unknown, path: ReadonlyArray<string>): Node =>
  path.reduce<Node>(
    (node, step) => {
      if (isNode(node.properties) && step in node.properties) return resolved(root, node.properties[step])
      return resolved(root, Array.isArray(node.items) ? node.items[Number(step)] : node.items)
    },
    resolved(root, root)
  )

const typesOf = ({ type }: Node): ReadonlyArray<string> => [type].flat().filter((each) => typeof each === "string")

const article = (type: string) => (/^[aeio]/.test(type) ? `an ${type}` : `a ${type}`)

const pathOf = (location: string) =>
  location
    .split("/")
    .slice(1)
    .map((step) => decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~"))

/** Keywords whose errors only repeat those of nested values. */
const containers = new Set(["properties", "items", "$ref", "allOf", "additionalProperties", "prefixItems", "if"])

const faultOf = (root: unknown, keyword: string, error: string, path: ReadonlyArray<string>): Fault => {
  const schema = schemaAt(root, path)
  const choices = (Array.isArray(schema.enum) ? schema.enum : []).map((value) => JSON.stringify(value))
  const [, missing] = /required property "(.*)"/.exec(error) ?? []
  if (keyword === "required" && missing !== undefined)
    return { path: [...path, missing], message: "is required", choices: [] }
  if (keyword === "false") return { path, message: "is not a field of this kind", choices: [] }
  if (keyword === "type")
    return { path, message: `must be ${typesOf(schema).map(article).join(" or ") || "another type"}`, choices }
  if (keyword === "enum") return { path, message: `must be one of ${choices.join(", ")}`, choices }
  if (keyword === "anyOf" || keyword === "oneOf")
    return { path, message: "matches none of the allowed forms", choices: [] }
  return { path, message: error.replace(/\.$/, ""), choices: [] }
}

/** Returns what is wrong with a payload. A schema that cannot be read accepts everything. */
export const faultsOf = (schema: unknown, payload: unknown): ReadonlyArray<Fault> => {
  try {
    const root = lenient(schema)
    const { errors } = new Validator(root as Schema, "7", false).validate(payload)
    const unions = errors.filter(({ keyword }) => keyword === "anyOf" || keyword === "oneOf")
    const isInside = (location: string) => unions.some((union) => location.startsWith(`${union.keywordLocation}/`))
    const leaves = errors.filter(
      ({ keyword, keywordLocation }) => !containers.has(keyword) && !isInside(keywordLocation)
    )
    return leaves.map(({ error, instanceLocation, keyword }) => faultOf(root, keyword, error, pathOf(instanceLocation)))
  } catch {
    return []
  }
}

const requiredOf = ({ required }: Node): ReadonlyArray<unknown> => (Array.isArray(required) ? required : [])

/** An example value with all required fields, each with its first allowed value or an empty one. */
export const exampleOf = (root: unknown, node: unknown = root, depth = 0): unknown => {
  const schema = resolved(root, node)
  if ("const" in schema) return schema.const
  if ("default" in schema) return schema.default
  if (Array.isArray(schema.enum)) return schema.enum[0]
  if (Array.isArray(schema.examples)) return schema.examples[0]
  const union = schema.anyOf ?? schema.oneOf
  if (Array.isArray(union)) return depth > 5 ? null : exampleOf(root, union[0], depth + 1)
  const [type] = typesOf(schema)
  if (isNode(schema.properties) || type === "object") {
    const required = requiredOf(schema)
    const properties = Object.entries(isNode(schema.properties) ? schema.properties : {})
    const wanted = depth > 5 ? [] : properties.filter(([name]) => required.includes(name))
    return Object.fromEntries(wanted.map(([name, inner]) => [name, exampleOf(root, inner, depth + 1)]))
  }
  if (type === "number" || type === "integer") return typeof schema.minimum === "number" ? schema.minimum : 0
  if (type === "boolean") return false
  if (type === "array") return []
  return type === "null" ? null : ""
}

interface Field {
  readonly name: string
  readonly required: boolean
  readonly type: string
  /** An example value, as JSON. */
  readonly example: string
}

/** The fields of the payload. */
export const fieldsOf = (root: unknown): ReadonlyArray<Field> => {
  const schema = resolved(root, root)
  const properties = isNode(schema.properties) ? Object.entries(schema.properties) : []
  return properties.map(([name, inner]) => {
    const of = resolved(root, inner)
    return {
      name,
      required: requiredOf(schema).includes(name),
      type: Array.isArray(of.enum)
        ? of.enum.map((value) => JSON.stringify(value)).join(" | ")
        : typesOf(of).join(" | "),
      example: JSON.stringify(exampleOf(root, inner, 1), null, 2)
    }
  })
}

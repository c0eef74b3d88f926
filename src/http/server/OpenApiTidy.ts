import { JSONSchema, Predicate } from "effect"
import * as Problem from "../Problem.js"

type Json = Readonly<Record<string, unknown>>

const record = (value: unknown): Json => (Predicate.isRecord(value) ? (value as Json) : {})

const ways = [{ token: [] }, { login: [] }]
/** Schemas that only the framework's error format uses. */
const frameworkSchemas = new Set(["HttpApiDecodeError", "Issue", "PropertyKey"])

const open: ReadonlyArray<string> = ["session.login"]

/** Whether a schema is the framework's own error format, which no response of ours uses. */
const isFrameworkError = (value: unknown) =>
  Predicate.hasProperty(value, "$ref") && value.$ref === "#/components/schemas/HttpApiDecodeError"

/** Whether a schema is our error format, which the framework inlines everywhere. */
const isProblem = (value: Json) =>
  Predicate.hasProperty(value.properties, "error") &&
  Predicate.hasProperty(value.properties.error, "properties") &&
  Predicate.hasProperty(value.properties.error.properties, "tag")

const hasFrameworkError = (answer: unknown) => {
  const [content] = Object.values(record(record(answer).content))
  return isFrameworkError(record(content).schema)
}

/** Whether this is an `$id` that the framework repeats for all schemas of one type. Ids must be unique. */
const isSharedId = (key: string, field: unknown) =>
  key === "$id" && typeof field === "string" && field.startsWith("/schemas/")

const fieldsOf = (value: Json): Json =>
  Object.fromEntries(
    Object.entries(value)
      .filter(([key, field]) => !isSharedId(key, field))
      .map(([key, field]) => [key, tidy(field)])
  )

const tidy = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(tidy)
  if (!Predicate.isRecord(value)) return value
  if (isProblem(value)) return { $ref: "#/components/schemas/Problem" }
  if (Array.isArray(value.anyOf)) {
    const others = value.anyOf.filter((each) => !isFrameworkError(each))
    return others.length === 1 ? tidy(others[0]) : fieldsOf({ ...value, anyOf: others })
  }
  if (typeof value.operationId !== "string") return fieldsOf(value)
  const responses = Object.entries(record(value.responses)).filter(([, answer]) => !hasFrameworkError(answer))
  // The framework writes an empty `security`, which would override the global one.
  const security = open.includes(value.operationId) ? [] : ways
  return { ...fieldsOf({ ...value, responses: Object.fromEntries(responses) }), security }
}

const problemSchema = JSONSchema.make(Problem.Body).$defs?.Problem ?? {}

/** Corrects the framework's OpenAPI output: removes its error format and adds the security schemes. */
export const apply = (specification: Json): Json => {
  const components = record(specification.components)
  const own = Object.entries(record(components.schemas)).filter(([name]) => !frameworkSchemas.has(name))
  return {
    ...fieldsOf(specification),
    components: {
      ...components,
      schemas: { Problem: problemSchema, ...fieldsOf(Object.fromEntries(own)) },
      securitySchemes: {
        token: { type: "http", scheme: "bearer" },
        login: { type: "apiKey", in: "cookie", name: "nightshift_session" }
      }
    },
    security: ways
  }
}

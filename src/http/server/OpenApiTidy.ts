import { JSONSchema, Predicate } from "effect"
import { errorResponses } from "../Contract.js"
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

const hasFrameworkError = (answer: unknown) => {
  const [content] = Object.values(record(record(answer).content))
  return isFrameworkError(record(content).schema)
}

/** Whether this is an `$id` that the framework repeats for all schemas of one type. Ids must be unique. */
const isSharedId = (key: string, field: unknown) =>
  key === "$id" && typeof field === "string" && field.startsWith("/schemas/")

/** Statuses of the errors that every route has, and of those that follow from a route's parameters and body. */
const impliedErrors = ({ parameters, requestBody }: Json): ReadonlyArray<number> => {
  const names = Array.isArray(parameters) ? parameters.map((each) => `${record(each).in} ${record(each).name}`) : []
  const has = (place: string) => names.some((name) => name.startsWith(`${place} `))
  // A workspace need not exist, but its name must be valid.
  const isWorkspace = names.includes("path workspace")
  return [
    ...[401, 403, 429, 503],
    ...(requestBody === undefined ? [] : [400, 413, 415]),
    ...(has("query") || isWorkspace ? [400] : []),
    ...(has("path") && (!isWorkspace || names.includes("path id")) ? [404] : [])
  ]
}

const fieldsOf = (value: Json): Json =>
  Object.fromEntries(
    Object.entries(value)
      .filter(([key, field]) => !isSharedId(key, field))
      .map(([key, field]) => [key, tidy(field)])
  )

const tidy = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(tidy)
  if (!Predicate.isRecord(value)) return value
  if (Array.isArray(value.anyOf)) {
    const others = value.anyOf.filter((each) => !isFrameworkError(each))
    return others.length === 1 ? tidy(others[0]) : fieldsOf({ ...value, anyOf: others })
  }
  if (typeof value.operationId !== "string") return fieldsOf(value)
  const own = Object.entries(record(value.responses)).filter(([, answer]) => !hasFrameworkError(answer))
  const responses = { ...Object.fromEntries(own), ...errorResponses(impliedErrors(value)) }
  // The framework writes an empty `security`, which would override the global one.
  const security = open.includes(value.operationId) ? [] : ways
  return { ...fieldsOf({ ...value, responses }), security }
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

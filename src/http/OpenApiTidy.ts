import { JSONSchema, Predicate } from "effect"
import * as Problem from "./Problem.js"

type Json = Readonly<Record<string, unknown>>

const record = (value: unknown): Json => (Predicate.isRecord(value) ? (value as Json) : {})

const ways = [{ token: [] }, { login: [] }]
/** Of which only that form is made. */
const foreign = new Set(["HttpApiDecodeError", "Issue", "PropertyKey"])

const open: ReadonlyArray<string> = ["session.login"]

/** The framework's own form of a refusal, which no answer of ours has. */
const isForeignRefusal = (value: unknown) =>
  Predicate.hasProperty(value, "$ref") && value.$ref === "#/components/schemas/HttpApiDecodeError"

/** Our own form, which the framework writes out wherever it stands. */
const isProblem = (value: Json) =>
  Predicate.hasProperty(value.properties, "error") &&
  Predicate.hasProperty(value.properties.error, "properties") &&
  Predicate.hasProperty(value.properties.error.properties, "tag")

const answersForeign = (answer: unknown) => {
  const [content] = Object.values(record(record(answer).content))
  return isForeignRefusal(record(content).schema)
}

/** An id that the framework gives to every schema of one sort, where an id must be one schema's own. */
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
    const others = value.anyOf.filter((each) => !isForeignRefusal(each))
    return others.length === 1 ? tidy(others[0]) : fieldsOf({ ...value, anyOf: others })
  }
  if (typeof value.operationId !== "string") return fieldsOf(value)
  const responses = Object.entries(record(value.responses)).filter(([, answer]) => !answersForeign(answer))
  // An operation that says "no security" would overrule what holds for all of them.
  const security = open.includes(value.operationId) ? [] : ways
  return { ...fieldsOf({ ...value, responses: Object.fromEntries(responses) }), security }
}

const problemSchema = JSONSchema.make(Problem.Body).$defs?.Problem ?? {}

/** What the framework makes of the contract, without what is not true of our answers, and with how one is let in. */
export const apply = (specification: Json): Json => {
  const components = record(specification.components)
  const own = Object.entries(record(components.schemas)).filter(([name]) => !foreign.has(name))
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

import { createRequire } from "node:module"
import { JSONSchema, ParseResult, Predicate, Schema } from "effect"
import { issuesText } from "../core/Issues.js"
import { type Checked, check, type StandardSchema } from "../core/StandardSchema.js"

export type { StandardSchema } from "../core/StandardSchema.js"
/** @internal */
export { type Checked, check } from "../core/StandardSchema.js"

/** Returns why a value is not a validator, or nothing if it is one. @internal */
export const faultOf = (value: unknown): string | undefined => {
  const isObject = Predicate.isObject(value)
  if (isObject && Predicate.hasProperty(value, "~standard")) return undefined
  if (isObject && Schema.isSchema(value)) return "is an Effect Schema: pass Schema.standardSchemaV1(schema)"
  const given = isObject ? 'an object without "~standard"' : String(value)
  return `must be a Standard Schema validator, such as z.object({ id: z.string() }), got ${given}`
}

/** Input type of a validator. */
export type InputOf<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["input"]
/** Output type of a validator. */
export type OutputOf<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["output"]

/** Like `check`, for a caller that cannot wait: undefined if the validator is asynchronous. @internal */
export const checkNow = <A>(schema: StandardSchema<unknown, A>, value: unknown): Checked<A> | undefined => {
  const checked = check(schema, value)
  if (!(checked instanceof Promise)) return checked
  // Without this, a validator that rejects would end the process.
  checked.catch(() => {})
  return undefined
}

/** A decoded payload. Asynchronous validators return a promise. @internal */
export type Decoded = Checked<unknown> | Promise<Checked<unknown>>

/** Validators that generate JSON Schema: through the standard's own extension, or a method as in arktype. */
const byItself = (schema: object): unknown => {
  const standard: unknown = (schema as StandardSchema)["~standard"]
  if (Predicate.hasProperty(standard, "jsonSchema") && Predicate.hasProperty(standard.jsonSchema, "input")) {
    const { jsonSchema } = standard
    if (typeof jsonSchema.input === "function") return jsonSchema.input.call(jsonSchema, { target: "draft-07" })
  }
  if (Predicate.hasProperty(schema, "toJsonSchema") && typeof schema.toJsonSchema === "function") {
    return schema.toJsonSchema.call(schema)
  }
  return undefined
}

const byEffect = (schema: object): unknown => {
  if (!Schema.isSchema(schema)) return undefined
  const definitions: Record<string, JSONSchema.JsonSchema7> = {}
  // Decoding ignores unknown fields.
  const made = JSONSchema.fromAST(schema.ast, { definitions, additionalPropertiesStrategy: "allow" })
  return Object.keys(definitions).length === 0 ? made : { ...made, $defs: definitions }
}

/** Loads a module from the program's folder or from this package's. */
const loaded = (name: string): Readonly<Record<string, unknown>> | undefined => {
  for (const from of [`${process.cwd()}/package.json`, import.meta.url]) {
    try {
      return createRequire(from)(name) as Readonly<Record<string, unknown>>
    } catch {
      // Not installed there.
    }
  }
  return undefined
}

/** Functions that generate JSON Schema for validators that do not. */
const describers: Readonly<Record<string, readonly [module: string, maker: string, options: object]>> = {
  zod: ["zod", "toJSONSchema", { io: "input", unrepresentable: "any", target: "draft-7" }],
  valibot: ["@valibot/to-json-schema", "toJsonSchema", { typeMode: "input", errorMode: "ignore" }]
}

const byModule = (schema: object): unknown => {
  const [module, maker, options] = describers[(schema as StandardSchema)["~standard"].vendor] ?? []
  const make = module === undefined || maker === undefined ? undefined : loaded(module)?.[maker]
  return typeof make === "function" ? make(schema, options) : undefined
}

/** The input of a validator as JSON Schema, if it can be expressed. @internal */
export const jsonSchemaOf = (schema: StandardSchema<never, unknown>): object | undefined => {
  for (const describe of [byEffect, byItself, byModule]) {
    try {
      const made = describe(schema)
      if (Predicate.isRecord(made)) return made
    } catch {
      // Part of the validator cannot be expressed in JSON Schema.
    }
  }
  return undefined
}

/** A validator as the payload schema of a kind. The stored payload is the input of the validator. @internal */
export const payloadSchema = (schema: StandardSchema<never, unknown>): Schema.Schema<Decoded, unknown> => {
  const known = payloadSchemas.get(schema) ?? makePayloadSchema(schema)
  payloadSchemas.set(schema, known)
  return known
}

/** Several kinds may share a schema, which is compiled once. */
const payloadSchemas = new WeakMap<StandardSchema<never, unknown>, Schema.Schema<Decoded, unknown>>()

const makePayloadSchema = (schema: StandardSchema<never, unknown>): Schema.Schema<Decoded, unknown> => {
  const jsonSchema = jsonSchemaOf(schema)
  const stored = jsonSchema === undefined ? undescribed : Schema.Unknown.annotations({ jsonSchema })
  const checking = Schema.transformOrFail(stored, Schema.Unknown as unknown as Schema.Schema<Decoded>, {
    strict: true,
    decode: (payload, _, ast) => {
      const checked = check(schema, payload)
      if (checked instanceof Promise || checked.issues === undefined) return ParseResult.succeed(checked)
      return ParseResult.fail(new ParseResult.Type(ast, payload, issuesText("payload", checked.issues)))
    },
    encode: (_, __, ast) => ParseResult.fail(new ParseResult.Forbidden(ast, _, "payloads are stored as given"))
  })
  // The message of the validator alone, without the steps of the transformation.
  return checking.annotations({ message: (issue) => ({ message: ownMessage(issue), override: true }) })
}

const ownMessage = (issue: ParseResult.ParseIssue): string => {
  if (issue._tag === "Transformation") return ownMessage(issue.issue)
  return (issue._tag === "Type" || issue._tag === "Forbidden" ? issue.message : undefined) ?? "the payload is invalid"
}

/** A declared type has no JSON Schema. */
const undescribed: Schema.Schema<unknown> = Schema.declare((_: unknown): _ is unknown => true)

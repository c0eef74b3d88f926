import { Either, JSONSchema, ParseResult, Schema, type SchemaAST } from "effect"
import type { PayloadCheck } from "../queue/enqueue/PayloadCheck.js"
import { fieldAt } from "../queue/enqueue/PayloadCheck.js"
import type { JobKind } from "../queue/Job.js"

/** Larger schemas are not published: they are unreadable for people and slow down every enqueue. */
const maxCharacters = 64 * 1024

const published = new WeakMap<SchemaAST.AST, { readonly text: string | undefined }>()

/** Returns the JSON Schema of a kind's payload, or undefined if it has none. */
export const jsonSchemaOf = ({ payload: { ast } }: JobKind<never>): string | undefined => {
  const known = published.get(ast) ?? { text: publish(ast) }
  published.set(ast, known)
  return known.text
}

const publish = (ast: SchemaAST.AST): string | undefined => {
  try {
    const definitions: Record<string, JSONSchema.JsonSchema7> = {}
    const schema = JSONSchema.fromAST(ast, {
      definitions,
      // Decoding ignores unknown fields.
      additionalPropertiesStrategy: "allow"
    })
    const text = JSON.stringify(Object.keys(definitions).length === 0 ? schema : { ...schema, $defs: definitions })
    return text.length > maxCharacters ? undefined : text
  } catch {
    // A declared type without a `jsonSchema` annotation.
    return undefined
  }
}

/** Returns a check of payloads of the current version against the kind's own schema. */
export const checkOf = (kind: JobKind<never>): PayloadCheck => {
  const decode = Schema.decodeUnknownEither(kind.payload)
  return (payload) => {
    const decoded = decode(payload)
    if (Either.isRight(decoded)) return undefined
    const [issue] = ParseResult.ArrayFormatter.formatErrorSync(decoded.left)
    return { field: fieldAt(issue?.path ?? []), reason: issue?.message ?? "it does not match the schema" }
  }
}

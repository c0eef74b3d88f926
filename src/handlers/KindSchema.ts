import { Either, JSONSchema, ParseResult, Schema } from "effect"
import type { PayloadCheck } from "../queue/enqueue/PayloadCheck.js"
import { fieldAt } from "../queue/enqueue/PayloadCheck.js"
import type { JobKind } from "../queue/Job.js"

/** A schema that is larger is of no use to people, and not worth reading at every enqueue. */
const mostCharacters = 64 * 1024

/** The payload of a kind as JSON Schema, where there is a way to say it. */
export const jsonSchemaOf = (kind: JobKind<never>): string | undefined => {
  try {
    const definitions: Record<string, JSONSchema.JsonSchema7> = {}
    const schema = JSONSchema.fromAST(kind.payload.ast, {
      definitions,
      // Decoding passes over fields that it does not know.
      additionalPropertiesStrategy: "allow"
    })
    const text = JSON.stringify(Object.keys(definitions).length === 0 ? schema : { ...schema, $defs: definitions })
    return text.length > mostCharacters ? undefined : text
  } catch {
    // A declared type without a `jsonSchema` annotation.
    return undefined
  }
}

/** Whether the handlers of a kind can read a payload of its current version, asked of its own schema. */
export const checkOf = (kind: JobKind<never>): PayloadCheck => {
  const decode = Schema.decodeUnknownEither(kind.payload)
  return (payload) => {
    const decoded = decode(payload)
    if (Either.isRight(decoded)) return undefined
    const [issue] = ParseResult.ArrayFormatter.formatErrorSync(decoded.left)
    return { field: fieldAt(issue?.path ?? []), reason: issue?.message ?? "it does not decode" }
  }
}

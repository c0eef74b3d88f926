import { Option, ParseResult, Schema, type SchemaAST } from "effect"
import * as DurationText from "../core/DurationText.js"
import * as WireText from "./WireText.js"

// A duration that a caller sets is text such as `90s` in responses, and text or milliseconds in requests. A measured
// time is a number of seconds.

interface Accepted {
  /** Whether the duration, in milliseconds, is allowed. */
  readonly if: (millis: number) => boolean
  readonly message: string
}

const anyLength: Accepted = { if: () => true, message: `must be ${DurationText.expected}, or milliseconds` }

const reading =
  (accepted: Accepted) =>
  (given: number | string, _: unknown, ast: SchemaAST.AST): ReturnType<typeof ParseResult.fromOption<number>> => {
    const millis = typeof given === "number" ? Option.some(given) : DurationText.parseMillis(given)
    const allowed = Option.filter(millis, (each) => each >= 0 && accepted.if(each))
    return ParseResult.fromOption(allowed, () => new ParseResult.Type(ast, given))
  }

const encode = (millis: number) => ParseResult.succeed(DurationText.format(millis))

/** A field of a request's body. Milliseconds in code. */
export const field = (description: string, accepted = anyLength): Schema.Schema<number, number | string> =>
  Schema.transformOrFail(Schema.Union(Schema.Number, Schema.String), Schema.Number, {
    strict: true,
    decode: reading(accepted),
    encode
  }).annotations({
    ...WireText.withMessage(accepted.message),
    jsonSchema: { oneOf: [{ type: "string" }, { type: "number", minimum: 0 }], description }
  })

/** A query parameter: text only. Milliseconds in code. */
export const parameter = (description: string, accepted: Accepted): Schema.Schema<number, string> =>
  Schema.transformOrFail(Schema.String, Schema.Number, { strict: true, decode: reading(accepted), encode }).annotations(
    { ...WireText.withMessage(accepted.message), jsonSchema: { type: "string", description } }
  )

/** A field of a response, made by `DurationText.format`. */
export const text = (description = "A duration such as 90s, 5m or 1h30m."): Schema.Schema<string> =>
  Schema.String.annotations({ description })

import { Either, JSONSchema, ParseResult, Predicate, Schema } from "effect"
import * as JsonNumbers from "../core/JsonNumbers.js"
import { jsonText } from "../queue/NewJob.js"

const maxParameterBytes = 64 * 1024

/** Returns why PostgreSQL cannot store the text: NUL or an unpaired surrogate. */
const faultOf = (text: string): string | undefined =>
  Either.getOrElse(Either.flip(jsonText(text, maxParameterBytes)), () => undefined)

/** Text that is safe to use in a query. */
export const Text = Schema.String.annotations({ message: () => "must be text" }).pipe(
  // Without `jsonSchema`, the API description leaves out the descriptions of fields.
  Schema.filter(faultOf, { jsonSchema: {} })
)

/** A subject, which the queue checks. */
export const Subject: typeof Text = Text.annotations({
  description:
    "Whose data this is, such as customer:42. Only a digest is stored. POST /erase removes the data of a subject."
})

/** JSON in a query parameter. */
export const JsonText: Schema.Schema<unknown, string> = Schema.transformOrFail(Schema.String, Schema.Unknown, {
  strict: true,
  decode: (text, _, ast): Either.Either<unknown, ParseResult.ParseIssue> => {
    const parsed = Either.try((): unknown => JSON.parse(text))
    if (Either.isLeft(parsed)) return Either.left(new ParseResult.Type(ast, text, "must be JSON"))
    const lost = JsonNumbers.lostIn(text)
    if (lost !== undefined) {
      const issue = new ParseResult.Type(ast, text, JsonNumbers.reasonInFilter(lost))
      const [first, ...rest] = lost.path
      return Either.left(first === undefined ? issue : new ParseResult.Pointer([first, ...rest], text, issue))
    }
    const storable = jsonText(parsed.right, maxParameterBytes)
    if (Either.isLeft(storable)) return Either.left(new ParseResult.Type(ast, text, storable.left))
    return Either.right(parsed.right)
  },
  encode: (value) => ParseResult.succeed(JSON.stringify(value))
}).annotations({ jsonSchema: { type: "string", contentMediaType: "application/json" } })

const maxValues = 50

/** A parameter that may be repeated and matches any of its values. */
const repeated = <A extends string>(
  value: Schema.Schema<A>,
  split: (text: string) => ReadonlyArray<string>,
  read: (text: string) => Either.Either<A, string>,
  items: object,
  description: string
): Schema.Schema<ReadonlyArray<A>, ReadonlyArray<string>> =>
  Schema.transformOrFail(Schema.Array(Schema.String), Schema.Array(value), {
    strict: true,
    decode: (texts, _, ast): Either.Either<ReadonlyArray<A>, ParseResult.ParseIssue> => {
      const parts = texts.flatMap(split)
      const values =
        parts.length > maxValues
          ? Either.left(`must not have more than ${maxValues} values`)
          : Either.all(parts.map(read))
      return Either.mapLeft(values, (message) => new ParseResult.Type(ast, texts, message))
    },
    encode: (values) => ParseResult.succeed(values)
  }).annotations({ jsonSchema: { type: "array", items, description } })

const mustBeOneOf = (words: ReadonlyArray<string>) => `must be one of ${words.join(", ")}`

const byComma = (text: string) => text.split(",")
const readText = (text: string) => Either.flip(Either.fromNullable(faultOf(text), () => text))

/** A repeated parameter; commas are part of the value. */
export const texts = (description: string) =>
  repeated(Schema.String, (text) => [text], readText, { type: "string" }, description)

/** A repeated or comma-separated parameter, for names that contain no comma. */
export const names = (description: string) =>
  repeated(Schema.String, byComma, readText, { type: "string" }, description)

/** A repeated or comma-separated parameter with a fixed set of values. */
export const anyOf = <const A extends string>(words: ReadonlyArray<A>, description: string) =>
  repeated(
    Schema.Literal(...words),
    byComma,
    (text) =>
      Either.fromNullable(
        words.find((word) => word === text),
        () => mustBeOneOf(words)
      ),
    { type: "string", enum: words },
    description
  )

const withoutPrototype = Schema.Unknown.pipe(
  Schema.filter(
    (value) => !(Predicate.isRecord(value) && Object.hasOwn(value, "__proto__")) || "must not have the key __proto__"
  )
)

/** An object whose keys the caller chooses. Decoding it would lose the key `__proto__` silently. */
export const keyed = <A, I>(record: Schema.Schema<A, I>): Schema.Schema<A, unknown> => {
  const { $schema: _, ...jsonSchema } = JSONSchema.make(record)
  return Schema.compose(withoutPrototype, record, { strict: false }).annotations({ jsonSchema })
}

/** An optional field. */
export const optional = <S extends Schema.Schema.Any>(schema: S): Schema.optionalWith<S, { exact: true }> =>
  Schema.optionalWith(schema, { exact: true })

/** Replaces the schema's own error message. */
export const withMessage = (message: string) => ({ message: () => ({ message, override: true }) })

const described = (message: string, description: string | undefined) => ({
  ...withMessage(message),
  ...(description === undefined ? {} : { description })
})

/** An optional field that is true or false. */
export const flag = (description?: string) =>
  optional(Schema.Boolean.annotations(described("must be true or false", description)))

/** One of a fixed set of values. */
export const oneOf = <const A extends string>(words: ReadonlyArray<A>, description?: string) =>
  Schema.Literal(...words).annotations(described(mustBeOneOf(words), description))

/** The direction of a list. */
export const order = (description: string) =>
  optional(Schema.Literal("asc", "desc").annotations(described("must be asc or desc", description)))

/** Rejects unknown fields, so a misspelled field is not silently ignored. */
export const strict = { parseOptions: { onExcessProperty: "error", exact: true } } as const

/** The annotations of a body: its name in the contract, and what it must be. */
export const body = (identifier: string, message = "must be an object") => ({
  identifier,
  message: () => message,
  ...strict
})

import { Either, ParseResult, Schema } from "effect"
import { jsonText } from "../queue/enqueue/NewJob.js"

const mostBytes = 64 * 1024

/** Why text cannot be asked for: the database has no bytes for NUL and for half a surrogate pair. */
const faultOf = (text: string): string | undefined =>
  Either.getOrElse(Either.flip(jsonText(text, mostBytes)), () => undefined)

/** Text that is safe to ask the database about. */
export const Text = Schema.String.annotations({ message: () => "must be text" }).pipe(Schema.filter(faultOf))

/** Text that is read as JSON, as in a query. */
export const JsonText: Schema.Schema<unknown, string> = Schema.transformOrFail(Schema.String, Schema.Unknown, {
  strict: true,
  decode: (text, _, ast): Either.Either<unknown, ParseResult.ParseIssue> => {
    const parsed = Either.try((): unknown => JSON.parse(text))
    if (Either.isLeft(parsed)) return Either.left(new ParseResult.Type(ast, text, "must be JSON"))
    const storable = jsonText(parsed.right, mostBytes)
    if (Either.isLeft(storable)) return Either.left(new ParseResult.Type(ast, text, storable.left))
    return Either.right(parsed.right)
  },
  encode: (value) => ParseResult.succeed(JSON.stringify(value))
}).annotations({ jsonSchema: { type: "string", contentMediaType: "application/json" } })

const mostValues = 50

/** A parameter that may be repeated, and means any of its values. */
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
        parts.length > mostValues
          ? Either.left(`must not have more than ${mostValues} values`)
          : Either.all(parts.map(read))
      return Either.mapLeft(values, (message) => new ParseResult.Type(ast, texts, message))
    },
    encode: (values) => ParseResult.succeed(values)
  }).annotations({ jsonSchema: { type: "array", items, description } })

const byComma = (text: string) => text.split(",")
const readText = (text: string) => Either.flip(Either.fromNullable(faultOf(text), () => text))

/** Texts of any sort, one for each time that the parameter is given. */
export const texts = (description: string) =>
  repeated(Schema.String, (text) => [text], readText, { type: "string" }, description)

/** Names that hold no comma, which may therefore separate them as well. */
export const names = (description: string) =>
  repeated(Schema.String, byComma, readText, { type: "string" }, description)

/** Some of a few words, separated by commas or by repeating the parameter. */
export const someOf = <const A extends string>(words: ReadonlyArray<A>, description: string) =>
  repeated(
    Schema.Literal(...words),
    byComma,
    (text) =>
      Either.fromNullable(
        words.find((word) => word === text),
        () => `must be one of ${words.join(", ")}`
      ),
    { type: "string", enum: words },
    description
  )

/** A field that may be left out. */
export const optional = <S extends Schema.Schema.Any>(schema: S): Schema.optionalWith<S, { exact: true }> =>
  Schema.optionalWith(schema, { exact: true })

/** What a client is told when a value does not fit, in place of what the schema would say of itself. */
export const said = (message: string) => ({ message: () => ({ message, override: true }) })

/** Without this a misspelt field would be passed over in silence, and the request do something else than meant. */
export const strict = { parseOptions: { onExcessProperty: "error", exact: true } } as const

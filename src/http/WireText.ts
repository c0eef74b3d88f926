import { Either, ParseResult, Schema } from "effect"
import { jsonText } from "../queue/NewJob.js"

const mostBytes = 64 * 1024

/** Text that is safe to ask the database about: it has no bytes for NUL and for half a surrogate pair. */
export const Text = Schema.String.annotations({ message: () => "must be text" }).pipe(
  Schema.filter((text) => Either.getOrElse(Either.flip(jsonText(text, mostBytes)), () => undefined))
)

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

/** A field that may be left out. */
export const optional = <S extends Schema.Schema.Any>(schema: S): Schema.optionalWith<S, { exact: true }> =>
  Schema.optionalWith(schema, { exact: true })

/** What a client is told when a value does not fit, in place of what the schema would say of itself. */
export const said = (message: string) => ({ message: () => ({ message, override: true }) })

/** Without this a misspelt field would be passed over in silence, and the request do something else than meant. */
export const strict = { parseOptions: { onExcessProperty: "error", exact: true } } as const

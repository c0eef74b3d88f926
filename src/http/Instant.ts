import { DateTime, Option, ParseResult, Schema } from "effect"
import * as WireText from "./WireText.js"

const pattern = /^(\d{4})-(\d{2})-(\d{2})T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/

/** JavaScript parses February 30 as March 2. */
const dayExists = (year: number, month: number, day: number) => day <= new Date(Date.UTC(year, month, 0)).getUTCDate()

/** Description of the expected format, for error messages. */
export const expected = "an RFC 3339 time like 2026-01-31T09:00:00Z"

/** Parses an RFC 3339 time to epoch milliseconds. Returns none for anything else, including a time without a zone. */
export const parse = (text: string): Option.Option<number> => {
  const upper = text.toUpperCase()
  const [, year, month, day] = pattern.exec(upper) ?? []
  if (!dayExists(Number(year), Number(month), Number(day))) return Option.none()
  return Option.map(DateTime.make(upper), DateTime.toEpochMillis)
}

/** Formats epoch milliseconds as RFC 3339 in UTC. */
export const format = (millis: number): string => DateTime.formatIso(DateTime.unsafeMake(Math.floor(millis)))

/** Formats a time that may be absent, for responses, in which every field is present. */
export const formatOrNull = (millis: number | undefined): string | null =>
  millis === undefined ? null : format(millis)

const jsonSchema = { type: "string", format: "date-time" }

/** A time in a response. */
export const Moment = Schema.String.annotations({ jsonSchema })

/** RFC 3339 on the wire, epoch milliseconds in code. */
export const Instant: Schema.Schema<number, string> = Schema.transformOrFail(Schema.String, Schema.Number, {
  strict: true,
  decode: (text, _, ast) => ParseResult.fromOption(parse(text), () => new ParseResult.Type(ast, text)),
  encode: (millis) => ParseResult.succeed(format(millis))
}).annotations({
  message: () => ({ message: `must be ${expected}`, override: true }),
  jsonSchema
})

/** A time with a description. The API description leaves out one beside `jsonSchema`. */
export const described = (description: string): typeof Instant =>
  Instant.annotations({ jsonSchema: { ...jsonSchema, description } })

/** Fields of a query for a time range, which ends now if `until` is omitted. */
export const range = {
  since: WireText.optional(described("Start of the time range. Defaults to one hour before `until`.")),
  until: WireText.optional(described("End of the time range. Defaults to now."))
}

import { Either, ParseResult, Schema } from "effect"
import { faultOfInstant, shown } from "../core/Storable.js"
import * as Instant from "../http/Instant.js"
import { faultOfIssues } from "../http/RequestErrors.js"
import { checkKnown, type InstantInput, instantOf } from "./Options.js"
import { InvalidOptionError } from "./ShiftErrors.js"

/** The time of a filter as in the HTTP API. @internal */
export const instant = (field: string, given: InstantInput | undefined): string | undefined => {
  if (given === undefined) return undefined
  const millis = instantOf(`filter.${field}`, given)
  const fault = faultOfInstant(millis)
  if (fault !== undefined) throw new InvalidOptionError(`filter.${field}`, `filter.${field} ${fault}.`)
  return Instant.format(millis)
}

/**
 * Returns a function that checks a filter of a program with the schema of the HTTP API. It throws InvalidOptionError, whose
 * message names a field as `filter.state`. Fields that are undefined are left out.
 * @internal
 */
export const reader = <A, I>(filter: Schema.Schema<A, I>, names: ReadonlyArray<string>, what: string) => {
  const decode = Schema.decodeUnknownEither(Schema.Struct({ filter }))
  /** `wire` are fields whose form differs from that in the HTTP API. */
  return (given: object, wire: (given: object) => object = () => ({})): A => {
    if (typeof given !== "object" || given === null || Array.isArray(given))
      throw new InvalidOptionError("filter", `The filter must be an object like { ${what} }, got ${shown(given)}.`)
    checkKnown(given, names, "a field of this filter", "filter.")
    const fields = Object.entries({ ...given, ...wire(given) }).filter(([, value]) => value !== undefined)
    return Either.getOrThrowWith(decode({ filter: Object.fromEntries(fields) }), (error) => {
      const { field = "filter", message } = faultOfIssues(ParseResult.ArrayFormatter.formatErrorSync(error))
      return new InvalidOptionError(field, message)
    }).filter
  }
}

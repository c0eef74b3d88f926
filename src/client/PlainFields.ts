import type { Schema } from "effect"
import type { Id } from "../core/Id.js"
import { copying, type TimeName } from "../core/ViewFields.js"

// The views of programs have the fields of the HTTP API's responses under the same names. Only their form differs. Which they
// are is written once, in the response: a view that promises another field does not compile.

type InProgram<Name, Value> = Name extends TimeName
  ? Value extends number
    ? Date
    : Value
  : Value extends Id<string>
    ? string
    : Value

/** Stored fields as programs see them: times are dates, and a field without a value is undefined. */
export type PlainFields<Stored> = { readonly [Name in keyof Stored]: InProgram<Name, Stored[Name]> }

/**
 * @internal
 * Returns a function that makes the fields of a view from those of a stored value with the same names.
 */
export const of = <Fields extends Schema.Struct.Fields>({ fields }: { readonly fields: Fields }) => {
  const copy = copying(Object.keys(fields), (millis) => new Date(millis), undefined)
  return <Stored extends object>(stored: Stored) =>
    copy(stored) as PlainFields<Pick<Stored, keyof Stored & keyof Fields>>
}

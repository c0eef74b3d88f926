import type { Brand, Schema } from "effect"
import { copying, type TimeName } from "../core/ViewFields.js"

// The views of programs have the fields of the HTTP API's responses under the same names, so a field is declared once:
// there. Only their form differs.

type InProgram<Name, Value> = Name extends TimeName
  ? Value extends number
    ? Date
    : Value
  : Value extends string & Brand.Brand<string>
    ? string
    : Value

type Named<Stored> = { readonly [Name in keyof Stored]: InProgram<Name, Stored[Name]> }

/** The stored fields that a response has: times are dates, and a field without a value is undefined. */
export type PlainFields<Stored, Response> = Named<Pick<Stored, keyof Stored & keyof Response>>

/** Returns a function that makes the fields of a view from those of a stored value with the same names. */
export const of = <Fields extends Schema.Struct.Fields>({ fields }: { readonly fields: Fields }) => {
  const copy = copying(Object.keys(fields), (millis) => new Date(millis), undefined)
  return <Stored extends object>(stored: Stored) => copy(stored) as PlainFields<Stored, Fields>
}

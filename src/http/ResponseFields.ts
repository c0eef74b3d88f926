import type { Schema } from "effect"
import { copying, type TimeName } from "../core/ViewFields.js"
import * as Instant from "./Instant.js"

type InResponse<Name, Value> = Value extends undefined
  ? null
  : Name extends TimeName
    ? Value extends number
      ? string
      : Value
    : Value

/** Stored fields in a response: times are text, and a field without a value is null. */
export type ResponseFields<Stored, Names> = {
  readonly [Name in keyof Stored & Names]: InResponse<Name, Stored[Name]>
}

/** Returns a function that makes the fields of a response from those of a stored value with the same names. */
export const of = <Fields extends Schema.Struct.Fields>({ fields }: { readonly fields: Fields }) => {
  const copy = copying(Object.keys(fields), Instant.format, null)
  return <Stored extends object>(stored: Stored) => copy(stored) as ResponseFields<Stored, keyof Fields>
}

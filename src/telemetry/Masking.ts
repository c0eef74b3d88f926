import { Predicate } from "effect"
import * as Setting from "../core/Setting.js"

export const settings = {
  mask: Setting.list({
    key: "NIGHTSHIFT_MASK",
    about: "Names of payload fields that viewers and logs must not show, separated by commas, as in `password, email`."
  })
}

/** What stands in place of a value that is not shown. */
export const masked = "[masked]"

/** Deeper than anybody writes by hand; beyond it nothing is shown rather than something too much. */
const mostDepth = 64

export type Mask = (value: unknown) => unknown

/** Plain data only: what has a class of its own knows best how it is shown. */
const isPlain = (value: unknown): value is Readonly<Record<string, unknown>> => {
  if (!Predicate.isRecord(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** Hides the fields of these names wherever they stand, in whatever case; everything else stays as it is. */
export const make = (names: ReadonlyArray<string>): Mask => {
  if (names.length === 0) return (value) => value
  const hidden = new Set(names.map((name) => name.toLowerCase()))
  const hide = (value: unknown, depth: number): unknown => {
    if (depth > mostDepth) return masked
    if (Array.isArray(value)) return value.map((each) => hide(each, depth + 1))
    if (!isPlain(value)) return value
    return Object.fromEntries(
      Object.entries(value).map(([name, field]) => [
        name,
        hidden.has(name.toLowerCase()) ? masked : hide(field, depth + 1)
      ])
    )
  }
  return (value) => hide(value, 0)
}

/** Whether a value says anything about a hidden field. */
export const touches = (names: ReadonlyArray<string>, value: unknown): boolean => {
  const mask = make(names)
  return names.length > 0 && JSON.stringify(mask(value)) !== JSON.stringify(value)
}

import * as Api from "./Api"
import { instantText, span } from "./parts/Time"
import { type Route, to } from "./Route"

// Which jobs a list shows. The address holds it, as text; the API takes it as a query or, to act on all of them, as JSON; a
// saved view is that JSON under a name.

const many = ["queue", "kind", "state", "deadReason"] as const
const single = ["text", "payload", "dedupe", "shape", "within", "since", "until"] as const
export type Field = (typeof many)[number] | (typeof single)[number]

/** Every field that says something, with what it says. */
export type JobFilter = Readonly<Partial<Record<Field, ReadonlyArray<string>>>>

const fields: ReadonlyArray<Field> = [...many, ...single]
const isMany = (field: Field) => many.some((name) => name === field)

/** Kinds may hold a comma; the others are names and words, and the API takes them in a row. */
const valuesOf = (field: Field, texts: ReadonlyArray<string>) => {
  if (!isMany(field)) return texts.slice(0, 1)
  return [...new Set(field === "kind" ? texts : texts.flatMap((text) => text.split(",")))]
}

const said = (entries: ReadonlyArray<readonly [Field, ReadonlyArray<string>]>): JobFilter =>
  Object.fromEntries(entries.filter(([, values]) => values.length > 0))

/** What the address says, with what the page itself stands for. */
export const read = (route: Route, preset: JobFilter): JobFilter => ({
  ...said(
    fields.map((field) => [
      field,
      valuesOf(
        field,
        route.query.getAll(field).filter((text) => text !== "" && (field !== "within" || Number(text) > 0))
      )
    ])
  ),
  ...preset
})

/** The same without what the page stands for: what can be taken away, and what a view keeps. */
export const without = (filter: JobFilter, preset: JobFilter): JobFilter =>
  said(fields.flatMap((field) => (preset[field] === undefined ? [[field, filter[field] ?? []]] : [])))

export const isEmpty = (filter: JobFilter): boolean => Object.keys(filter).length === 0

const sorted = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== "object" || value === null) return value
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([name, field]) => [name, sorted(field)]))
}

/** The same however it was typed, and in whatever order the database gives it back. */
const canonical = (field: Field, text: string): string => {
  try {
    if (field === "payload") return JSON.stringify(sorted(JSON.parse(text)))
    return field === "since" || field === "until" ? new Date(text).toISOString() : text
  } catch {
    return text
  }
}

/** The one address of a page with this filter, however it came about. */
export const address = (page: string, filter: JobFilter): string =>
  to(
    page,
    Object.fromEntries(
      fields.map((field) => [field, (filter[field] ?? []).map((text) => canonical(field, text)).sort()])
    )
  )

/** A span that ends now, as its beginning. In whole minutes, so that a list is not another one at every moment. */
const anchored = ({ within, ...filter }: JobFilter): JobFilter => {
  if (within === undefined) return filter
  const minute = Math.floor(Date.now() / 60_000) * 60_000
  return { ...filter, since: [new Date(minute - Number(within[0]) * 1000).toISOString()] }
}

/** The query that asks the API for these jobs. */
export const query = (filter: JobFilter, page: { readonly limit: number; readonly cursor: string | null }): string =>
  Api.query({ ...anchored(filter), ...page })

/** As JSON. Fails where the payload is none. */
const json = (filter: JobFilter): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(filter).map(([field, values]) => {
      const [first = ""] = values
      if (field === "payload") return [field, JSON.parse(first)]
      if (field === "within") return [field, Number(first)]
      return [field, values.length === 1 ? first : values]
    })
  )

/** What an act on all of these jobs says of them. */
export const target = (filter: JobFilter): Readonly<Record<string, unknown>> => json(anchored(filter))

/** What a view keeps: a span stays one. */
export const kept = json

const textsOf = (field: Field, value: unknown): ReadonlyArray<string> => {
  if (value === undefined) return []
  return field === "payload" ? [JSON.stringify(value)] : [value].flat().map(String)
}

/** A filter that came as JSON. */
export const ofJson = (filter: Readonly<Record<string, unknown>>): JobFilter =>
  said(fields.map((field) => [field, textsOf(field, filter[field])]))

const names: Readonly<Record<Field, string>> = {
  queue: "queue",
  kind: "kind",
  state: "state",
  deadReason: "dead because",
  text: "error has",
  payload: "payload has",
  dedupe: "dedupe key",
  shape: "error like",
  within: "enqueued in the last",
  since: "enqueued from",
  until: "enqueued before"
}

const valueText = (field: Field, value: string) => {
  if (field === "within") return span(Number(value))
  const at = new Date(value)
  return (field === "since" || field === "until") && !Number.isNaN(at.getTime()) ? instantText(at) : value
}

/** A value of a field in words. */
export const words = (field: Field, value: string): string => `${names[field]} ${valueText(field, value)}`

/** The filter's values one by one. */
export const parts = (filter: JobFilter): ReadonlyArray<readonly [Field, string]> =>
  fields.flatMap((field) => (filter[field] ?? []).map((value) => [field, value] as const))

import { lostIn, reasonInFilter } from "../../core/JsonNumbers.js"
import * as Api from "./Api"
import { secondsOf } from "./Durations"
import { instantText, span } from "./parts/Time"
import { type Route, to } from "./Route"

// The filter of a job list. It has three forms: text in the URL, a query for the API, and JSON for bulk actions and
// saved views.

const many = ["queue", "kind", "state", "reason"] as const
const single = [
  "search",
  "text",
  "payload",
  "dedupe",
  "key",
  "pod",
  "shape",
  "within",
  "since",
  "until",
  "diedBefore"
] as const
export type Field = (typeof many)[number] | (typeof single)[number]

/** The values of each field that is set. */
export type JobFilter = Readonly<Partial<Record<Field, ReadonlyArray<string>>>>

const fields: ReadonlyArray<Field> = [...many, ...single]
/** Parameters of the page that are no filter. */
const paging = ["cursor", "sort", "order"]
const moments: ReadonlyArray<Field> = ["since", "until", "diedBefore"]
const isMany = (field: Field) => many.some((name) => name === field)

/**
 * The fields in their order, then names that are none, such as those of old links. They are kept, so that the API refuses
 * them: without them, the list and its actions would cover more jobs.
 */
const withOthers = (names: Iterable<string>): ReadonlyArray<Field> => [
  ...new Set([...fields, ...(names as Iterable<Field>)])
]

/** All fields but kind accept comma-separated values; a kind may contain a comma. */
const valuesOf = (field: Field, texts: ReadonlyArray<string>) => {
  if (!isMany(field)) return texts.slice(0, 1)
  return [...new Set(field === "kind" ? texts : texts.flatMap((text) => text.split(",")))]
}

const said = (entries: ReadonlyArray<readonly [Field, ReadonlyArray<string>]>): JobFilter =>
  Object.fromEntries(entries.filter(([, values]) => values.length > 0))

/** The seconds of `within`; 0 if the text is not a duration. */
export const lengthOf = (within: string): number => secondsOf(within) ?? 0

/** Reads the filter from the URL; the page's preset takes precedence. */
export const read = (route: Route, preset: JobFilter): JobFilter => ({
  ...said(
    withOthers(route.query.keys())
      .filter((field) => !paging.includes(field))
      .map((field) => [
        field,
        valuesOf(
          field,
          route.query.getAll(field).filter((text) => text !== "")
        )
      ])
  ),
  ...preset
})

/** Returns the filter without the preset fields: the part that the user can change and a view saves. */
export const without = (filter: JobFilter, preset: JobFilter): JobFilter =>
  said(
    withOthers(Object.keys(filter)).flatMap((field) =>
      preset[field] === undefined ? [[field, filter[field] ?? []]] : []
    )
  )

export const isEmpty = (filter: JobFilter): boolean => Object.keys(filter).length === 0

const sorted = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== "object" || value === null) return value
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([name, field]) => [name, sorted(field)]))
}

/** Parses the payload filter. Throws if it is not JSON, or has a number that parsing would replace by another. */
const payloadOf = (text: string): unknown => {
  const payload: unknown = JSON.parse(text)
  const lost = lostIn(text)
  if (lost !== undefined) throw new Error(`The payload filter ${reasonInFilter(lost)}.`)
  return payload
}

/** Normalizes a value, so that equal filters have equal URLs. */
const canonical = (field: Field, text: string): string => {
  try {
    if (field === "payload") return JSON.stringify(sorted(payloadOf(text)))
    return moments.includes(field) ? new Date(text).toISOString() : text
  } catch {
    return text
  }
}

/** Returns the canonical URL of a page with this filter. */
export const address = (page: string, filter: JobFilter): string =>
  to(
    page,
    Object.fromEntries(
      withOthers(Object.keys(filter)).map((field) => [
        field,
        (filter[field] ?? []).map((text) => canonical(field, text)).sort()
      ])
    )
  )

/**
 * Converts `within` to `since`. Rounds to minutes, so that the query does not change at every render. The API refuses a
 * `within` that is no duration.
 */
const anchored = (given: JobFilter): JobFilter => {
  const { within, ...filter } = given
  const seconds = lengthOf(within?.[0] ?? "")
  if (seconds === 0) return given
  const minute = Math.floor(Date.now() / 60_000) * 60_000
  return { ...filter, since: [new Date(minute - seconds * 1000).toISOString()] }
}

/** Returns the API query for a page of these jobs. */
export const query = (
  filter: JobFilter,
  page: {
    readonly limit: number
    readonly cursor: string | null
    readonly sort: string
    readonly order: "asc" | "desc"
  }
): string => Api.query({ ...anchored(filter), ...page })

/** Converts to JSON. Throws if the payload cannot be. */
const json = (filter: JobFilter): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(filter).map(([field, values]) => {
      const [first = ""] = values
      if (field === "payload") return [field, payloadOf(first)]
      return [field, values.length === 1 ? first : values]
    })
  )

/** Returns the filter of a bulk action. */
export const target = (filter: JobFilter): Readonly<Record<string, unknown>> => json(anchored(filter))

/** Returns the filter of a saved view, which keeps `within` relative. */
export const kept = json

const textsOf = (field: Field, value: unknown): ReadonlyArray<string> => {
  if (value === undefined) return []
  return field === "payload" ? [JSON.stringify(value)] : [value].flat().map(String)
}

/** Reads a filter from JSON. */
export const ofJson = (filter: Readonly<Record<string, unknown>>): JobFilter =>
  said(withOthers(Object.keys(filter)).map((field) => [field, textsOf(field, filter[field])]))

const names: Readonly<Record<Field, string>> = {
  queue: "queue",
  kind: "kind",
  state: "state",
  reason: "dead reason",
  search: "id, key, kind or error contains",
  text: "error contains",
  payload: "payload contains",
  dedupe: "dedupe key",
  key: "key",
  pod: "process",
  shape: "error like",
  within: "enqueued in the last",
  since: "enqueued from",
  until: "enqueued before",
  diedBefore: "ended before"
}

const valueText = (field: Field, value: string) => {
  if (field === "within" && lengthOf(value) > 0) return span(lengthOf(value))
  if (field === "pod") return value.slice(-8)
  const at = new Date(value)
  return moments.includes(field) && !Number.isNaN(at.getTime()) ? instantText(at) : value
}

/** Describes one value of a filter. */
export const words = (field: Field, value: string): string => `${names[field] ?? field} ${valueText(field, value)}`

/** Lists all values with their field. */
export const parts = (filter: JobFilter): ReadonlyArray<readonly [Field, string]> =>
  withOthers(Object.keys(filter)).flatMap((field) => (filter[field] ?? []).map((value) => [field, value] as const))

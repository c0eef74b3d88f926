import { Schema } from "effect"
import { isId } from "../../core/Ids.js"
import { State, stateOf } from "../../core/StoredJob.js"
import type { JobRow } from "../JobRowMemory.js"
import { type JobFilter, statesOf } from "./JobFilter.js"
import * as Fields from "./SortField.js"

// The order of a job list. Ids increase with time, so `created` is the order of the primary key, in which every list is
// exact. `due` and `finished` are exact where an index has that order. All other orders cover only the newest
// matching jobs: an index per column would slow down every claim.

export const SortField = Schema.Literal(...Fields.sortFields)
export type SortField = Fields.SortField

export interface JobSort {
  readonly by: SortField
  readonly descending: boolean
}

/** An order other than by id. */
export interface IndirectSort extends JobSort {
  readonly by: Exclude<SortField, "created">
}

export const newestFirst: JobSort = { by: "created", descending: true }

/** Number of newest matching jobs that are sorted if no index has the order. */
export const maxSortedJobs = 10_000

/** Number of newest jobs to search for matching ones if no index supports the filter. */
export const maxSearchedJobs = 50_000

/** How a list gets its order: from an index, or by sorting the newest matching jobs. */
export type Ordering = "lanes" | "finished" | "dead" | "sorted"

const within = (states: ReadonlyArray<State> | undefined, allowed: ReadonlyArray<State>) =>
  states !== undefined && states.length > 0 && states.every((state) => allowed.includes(state))

/** Chooses the access path for a filter and an order. */
export const orderingOf = (filter: JobFilter, { by }: IndirectSort): Ordering => {
  const states = statesOf(filter)
  // Jobs that wait for a retry are rare among due ones: reading a lane could skip any number of other jobs.
  if (by === "due" && within(states, ["scheduled", "pending"])) return "lanes"
  if (by !== "finished") return "sorted"
  if (within(states, ["dead"])) return "dead"
  // Cancelled jobs alone are rare among finished ones: the index of all finished jobs would not help.
  return within(states, ["done", "dead", "cancelled"]) && states?.includes("done") ? "finished" : "sorted"
}

/** A value to sort by; null sorts last. */
export type SortValue = number | string | null

/** Position of the last job of a page. */
export interface SortCursor {
  readonly value: SortValue
  readonly id: string
  /** Jobs with a larger id are newer than the first page, and are not part of a sorted list. */
  readonly newest: string
  /** Time of the first page. All pages measure what still runs until then, or it would change its place between two pages. */
  readonly at: number
}

export const writeCursor = ({ by, descending }: JobSort, { at, id, newest, value }: SortCursor): string =>
  Buffer.from(JSON.stringify([by, descending, value, id, newest, at])).toString("base64url")

const isJobId = (value: unknown): value is string => typeof value === "string" && isId(value)

/** Whether the order compares texts. All others compare numbers. */
export const isText = (by: SortField): boolean => by === "kind" || by === "queue"

/** A number that PostgreSQL can convert to a time, in microseconds. */
const isTime = (value: unknown): value is number => typeof value === "number" && Math.abs(value) < 1e18

/** Reads a cursor that was written for the same order; undefined if it was not. */
export const readCursor = ({ by, descending }: JobSort, text: string): SortCursor | undefined => {
  try {
    const parsed: unknown = JSON.parse(Buffer.from(text, "base64url").toString())
    if (!Array.isArray(parsed)) return undefined
    const [field, isDescending, value, id, newest, at] = parsed as ReadonlyArray<unknown>
    if (field !== by || isDescending !== descending || !isJobId(id) || !isJobId(newest) || !isTime(at)) return undefined
    const isValue = value === null || (isText(by) ? typeof value === "string" : isTime(value))
    return isValue ? { value: value as SortValue, id, newest, at } : undefined
  } catch {
    return undefined
  }
}

/** States in the order in which a job passes through them. */
const places = new Map(State.literals.map((state, place) => [state, place]))

/** The value of a job in an order, for the memory layer. */
export const sortValue = (row: JobRow, by: IndirectSort["by"], now: number): SortValue => {
  switch (by) {
    case "due":
      return row.runAt
    case "finished":
      return row.finishedAt ?? null
    case "when":
      return row.finishedAt ?? (row.status === "running" ? row.startedAt : undefined) ?? row.runAt
    case "duration":
      return row.startedAt === undefined || row.status === "pending" ? null : (row.finishedAt ?? now) - row.startedAt
    case "state":
      return places.get(stateOf(row, now)) ?? null
    default:
      return row[by]
  }
}

const compared = (a: number | string, b: number | string) => (a === b ? 0 : a < b ? -1 : 1)

/** Compares two places in a list. Equal values are ordered by id. */
export const compare = (
  { descending }: JobSort,
  a: Pick<SortCursor, "value" | "id">,
  b: Pick<SortCursor, "value" | "id">
): number => {
  if (a.value === null || b.value === null) {
    if (a.value !== b.value) return a.value === null ? 1 : -1
  } else if (a.value !== b.value) return descending ? compared(b.value, a.value) : compared(a.value, b.value)
  return descending ? compared(b.id, a.id) : compared(a.id, b.id)
}

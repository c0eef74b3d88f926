import { Predicate } from "effect"
import { stateOf } from "../../core/StoredJob.js"
import type { JobRow } from "../JobRowMemory.js"
import { errorShape } from "./ErrorShape.js"
import { choices, type JobFilter, statesOf } from "./JobFilter.js"

/** The semantics of `jsonb @>` below the top level, where an array does not contain a bare value. */
const containsInside = (whole: unknown, part: unknown): boolean => {
  if (Array.isArray(part)) {
    return Array.isArray(whole) && part.every((each) => whole.some((other) => containsInside(other, each)))
  }
  if (Predicate.isRecord(part)) {
    return (
      Predicate.isRecord(whole) &&
      Object.entries(part).every(([key, value]) => Object.hasOwn(whole, key) && containsInside(whole[key], value))
    )
  }
  return whole === part
}

const contains = (whole: unknown, part: unknown): boolean =>
  containsInside(whole, part) || (Array.isArray(whole) && !Predicate.isRecord(part) && whole.includes(part))

const isAmong = <A extends string>(field: A | ReadonlyArray<A> | undefined, value: A | undefined): boolean =>
  field === undefined || (value !== undefined && (choices(field) ?? []).includes(value))

const isFound = ({ dedupe, id, key, kind, lastError = "" }: JobRow, search: string): boolean =>
  dedupe?.key === search ||
  key === search ||
  [id, kind, lastError].some((text) => text.toLowerCase().includes(search.toLowerCase()))

export const matches = (row: JobRow, filter: JobFilter, now: number): boolean =>
  isAmong(filter.queue, row.queue) &&
  isAmong(filter.kind, row.kind) &&
  isAmong(statesOf(filter), stateOf(row, now)) &&
  isAmong(filter.reason, row.reason) &&
  (filter.since === undefined || row.createdAt >= filter.since) &&
  (filter.until === undefined || row.createdAt < filter.until) &&
  (filter.diedBefore === undefined || (row.finishedAt !== undefined && row.finishedAt < filter.diedBefore)) &&
  (filter.dedupe === undefined || row.dedupe?.key === filter.dedupe) &&
  (filter.key === undefined || row.key === filter.key) &&
  (filter.pod === undefined || (row.run?.pod ?? row.ranOn) === filter.pod) &&
  (filter.text === undefined || (row.lastError ?? "").toLowerCase().includes(filter.text.toLowerCase())) &&
  (filter.search === undefined || isFound(row, filter.search)) &&
  (filter.shape === undefined || errorShape(row.lastError) === filter.shape) &&
  (filter.batch === undefined || row.batch === filter.batch) &&
  (filter.payload === undefined || contains(JSON.parse(row.payload), filter.payload))

import { Schema } from "effect"
import { BatchId } from "../../core/Ids.js"
import { DeadReason, State } from "../../core/StoredJob.js"

const oneOrMany = <A extends string>(schema: Schema.Schema<A>) =>
  Schema.optional(Schema.Union(schema, Schema.Array(schema)))

/**
 * Selects jobs that match every field given. A list matches any of its values. `descriptions` says what the fields mean; times
 * are epoch milliseconds.
 */
export const JobFilter = Schema.Struct({
  queue: oneOrMany(Schema.String),
  kind: oneOrMany(Schema.String),
  state: oneOrMany(State),
  reason: oneOrMany(DeadReason),
  since: Schema.optional(Schema.Number),
  until: Schema.optional(Schema.Number),
  diedBefore: Schema.optional(Schema.Number),
  payload: Schema.optional(Schema.Unknown),
  dedupe: Schema.optional(Schema.String),
  key: Schema.optional(Schema.String),
  pod: Schema.optional(Schema.String),
  text: Schema.optional(Schema.String),
  search: Schema.optional(Schema.String),
  shape: Schema.optional(Schema.String),
  batch: Schema.optional(BatchId)
})
export type JobFilter = typeof JobFilter.Type

/** Which jobs a field selects, for the HTTP API, the command line and programs. */
export const descriptions: Readonly<Record<keyof JobFilter, string>> = {
  queue: "Jobs of this queue.",
  kind: "Jobs of this kind.",
  state: "Jobs in this state.",
  reason: "Dead jobs with this reason.",
  since: "Jobs enqueued at or after this time.",
  until: "Jobs enqueued before this time.",
  diedBefore: "Finished jobs that ended before this time.",
  payload: "Jobs whose payload contains this JSON.",
  dedupe: "Jobs with exactly this dedupe key.",
  key: "Jobs with exactly this key.",
  pod: "Jobs that the process with this id runs or has completed.",
  text: "Jobs with this text in the last error, case-insensitive.",
  search: "Jobs with this text in the id, the kind or the last error, or with exactly this dedupe key or key.",
  shape: "Jobs with this error shape: the first line of the last error, with numbers and ids replaced by #.",
  batch: "Jobs of this batch."
}

/** Returns the values of a field as a list; undefined if the field is not set. */
export const choices = <A extends string>(field: A | ReadonlyArray<A> | undefined): ReadonlyArray<A> | undefined =>
  field === undefined || typeof field !== "string" ? field : [field]

/**
 * The states that the filter accepts; undefined if it accepts all. A filter for dead jobs with the reason
 * `cancelled`, as used before `cancelled` was a state, still matches cancelled jobs.
 */
export const statesOf = ({ reason, state }: JobFilter): ReadonlyArray<State> | undefined => {
  const states = choices(state)
  return states?.includes("dead") && choices(reason)?.includes("cancelled") ? [...states, "cancelled"] : states
}

/** Whether no field is set, so that every job matches. */
export const isEmpty = (filter: JobFilter): boolean => Object.values(filter).every((field) => field === undefined)

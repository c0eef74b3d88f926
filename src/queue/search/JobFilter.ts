import { Schema } from "effect"
import { BatchId } from "../../core/Ids.js"
import { DeadReason, State } from "../../core/StoredJob.js"

const oneOrMany = <A extends string>(schema: Schema.Schema<A>) =>
  Schema.optional(Schema.Union(schema, Schema.Array(schema)))

/** Selects jobs that match every field given. A list matches any of its values. */
export const JobFilter = Schema.Struct({
  queue: oneOrMany(Schema.String),
  kind: oneOrMany(Schema.String),
  state: oneOrMany(State),
  reason: oneOrMany(DeadReason),
  /** Created at or after `since` and before `until`; epoch milliseconds. */
  since: Schema.optional(Schema.Number),
  until: Schema.optional(Schema.Number),
  /** JSON that the payload contains (`@>`). */
  payload: Schema.optional(Schema.Unknown),
  dedupe: Schema.optional(Schema.String),
  /** The id of the pod that runs the job, or that completed it. */
  pod: Schema.optional(Schema.String),
  /** Text in the last error, case-insensitive. */
  text: Schema.optional(Schema.String),
  /**
   * Text in the id, the kind or the last error, or the whole dedupe key or key; case-insensitive except for the keys.
   */
  search: Schema.optional(Schema.String),
  /** Shape of the last error: its first line without values that differ between jobs. */
  shape: Schema.optional(Schema.String),
  /** Jobs of this batch. */
  batch: Schema.optional(BatchId)
})
export type JobFilter = typeof JobFilter.Type

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

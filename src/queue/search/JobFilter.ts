import { Schema } from "effect"
import { DeadReason, State } from "../../core/StoredJob.js"

const oneOrMany = <A extends string>(schema: Schema.Schema<A>) =>
  Schema.optional(Schema.Union(schema, Schema.Array(schema)))

/** Which jobs are meant: those to which everything that is said here applies. A list means any of it. */
export const JobFilter = Schema.Struct({
  queue: oneOrMany(Schema.String),
  kind: oneOrMany(Schema.String),
  state: oneOrMany(State),
  deadReason: oneOrMany(DeadReason),
  /** Created at or after, and before; epoch milliseconds. */
  since: Schema.optional(Schema.Number),
  until: Schema.optional(Schema.Number),
  /** JSON that the payload must contain. */
  payload: Schema.optional(Schema.Unknown),
  /** The whole dedupe key. */
  dedupe: Schema.optional(Schema.String),
  /** Text in the last error, in whatever case. */
  text: Schema.optional(Schema.String),
  /** What is left of the last error without what differs from job to job. */
  shape: Schema.optional(Schema.String)
})
export type JobFilter = typeof JobFilter.Type

/** The choices of a field as a list; absent where anything goes. */
export const choices = <A extends string>(field: A | ReadonlyArray<A> | undefined): ReadonlyArray<A> | undefined =>
  field === undefined || typeof field !== "string" ? field : [field]

/** Whether nothing is said, so that every job is meant. */
export const isEmpty = (filter: JobFilter): boolean => Object.values(filter).every((field) => field === undefined)

import { Schema } from "effect"

/** Which job of a request is meant, as the beginning of a sentence. There is no need to say so of a single one. */
export const jobPrefix = ({
  index,
  jobs = 1
}: {
  readonly index: number
  readonly jobs?: number | undefined
}): string => (jobs === 1 ? "" : `Job ${index}: `)

/** A job that cannot be accepted, with the field at fault. Nothing of its request was stored. */
export class InvalidJob extends Schema.TaggedError<InvalidJob>()("InvalidJob", {
  /** Which job of the request; 0 for a single one. */
  index: Schema.Int,
  /** How many jobs the request held [1]. */
  jobs: Schema.optional(Schema.Int),
  field: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `${jobPrefix(this)}${this.field} ${this.reason}.`
  }
}

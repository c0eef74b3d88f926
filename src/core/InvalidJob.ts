import { Schema } from "effect"

/** A job that cannot be accepted, with the field at fault. Nothing of its request was stored. */
export class InvalidJob extends Schema.TaggedError<InvalidJob>()("InvalidJob", {
  /** Which job of the request; 0 for a single one. */
  index: Schema.Int,
  field: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `Job ${this.index}: ${this.field} ${this.reason}.`
  }
}

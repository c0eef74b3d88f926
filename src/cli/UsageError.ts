import { Schema } from "effect"

/** The command line is invalid. */
export class UsageError extends Schema.TaggedError<UsageError>()("UsageError", { message: Schema.String }) {}

/** Some actions of a command failed; `reasons` has one line for each. */
export class SomeFailed extends Schema.TaggedError<SomeFailed>()("SomeFailed", {
  reasons: Schema.Array(Schema.String)
}) {
  override get message(): string {
    return this.reasons.join("\n")
  }
}

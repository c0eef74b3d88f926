import { Schema } from "effect"

/** The command line asks for something that cannot be meant. */
export class UsageError extends Schema.TaggedError<UsageError>()("UsageError", { message: Schema.String }) {}

/** Some of several acts could not be done; each says why. */
export class SomeFailed extends Schema.TaggedError<SomeFailed>()("SomeFailed", {
  reasons: Schema.Array(Schema.String)
}) {
  override get message(): string {
    return this.reasons.join("\n")
  }
}

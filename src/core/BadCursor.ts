import { Schema } from "effect"

/** A cursor that no page has given out. */
export class BadCursor extends Schema.TaggedError<BadCursor>()("BadCursor", { cursor: Schema.String }) {
  override get message(): string {
    return "The cursor is not one that a page of this list has given out."
  }
}

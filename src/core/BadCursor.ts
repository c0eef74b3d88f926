import { Schema } from "effect"
import { Expected } from "./ExpectedError.js"

/** The request contained a cursor that this list did not return. */
export class BadCursor extends Expected<BadCursor>(400, { field: "cursor", exit: 2 })("BadCursor", {
  cursor: Schema.String
}) {
  override get message(): string {
    return "The cursor is invalid. Use the cursor returned by the previous page of this list, or omit it to start over."
  }
}

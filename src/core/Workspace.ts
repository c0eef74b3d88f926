import { Schema } from "effect"

/** Who fetches files. The name is also fit for a url, a file and a log. */
export const Workspace = Schema.String.pipe(
  Schema.pattern(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/),
  Schema.brand("Workspace")
)
export type Workspace = typeof Workspace.Type

/** What a workspace's name must be, as the end of a sentence that begins with what was given. */
export const rule = "must be 1 to 64 letters, digits, _, . or -, and begin with a letter or digit"

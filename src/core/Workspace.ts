import { Schema } from "effect"

/** Name of a workspace that fetches files. Safe in URLs, file names and logs. */
export const Workspace = Schema.String.pipe(
  Schema.pattern(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/),
  Schema.brand("Workspace")
)
export type Workspace = typeof Workspace.Type

/** The rule for workspace names. The caller puts the rejected name in front. */
export const rule = "must be 1 to 64 letters, digits, _, . or -, and start with a letter or digit"

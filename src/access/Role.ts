import { Schema } from "effect"

/** What somebody may do: everything, or read everything. */
export const Role = Schema.Literal("admin", "viewer")
export type Role = typeof Role.Type

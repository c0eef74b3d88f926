import { Schema } from "effect"

/** `admin` may do everything; `viewer` may read everything. */
export const Role = Schema.Literal("admin", "viewer")
export type Role = typeof Role.Type

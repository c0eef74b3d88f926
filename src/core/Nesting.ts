import { limits } from "./StoredJob.js"

// Values nested a few thousand levels deep overflow the stack of the code that walks them: JSON.stringify, jsonb, a schema.

/** Whether a value has more levels of arrays and objects than this. Plain loops: every large payload passes here. */
export const isDeeperThan = (value: unknown, levels: number): boolean => {
  if (typeof value !== "object" || value === null) return false
  if (levels === 0) return true
  if (Array.isArray(value)) {
    for (const each of value) if (isDeeperThan(each, levels - 1)) return true
    return false
  }
  for (const key in value) {
    if (isDeeperThan((value as Readonly<Record<string, unknown>>)[key], levels - 1)) return true
  }
  return false
}

/** Shown instead of a stored value that is nested too deep to print. */
export const showable = (value: unknown): unknown =>
  isDeeperThan(value, limits.nesting) ? `[nested more than ${limits.nesting} levels deep]` : value

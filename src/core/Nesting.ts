import { limits } from "./StoredJob.js"

// Values nested thousands of levels deep overflow the stack in JSON.stringify, in jsonb and in schema decoding.

/**
 * Whether a value has more than `levels` levels of arrays and objects. Uses plain loops because every large payload is
 * checked here.
 */
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

/** Returns the value, or a placeholder if it is nested too deeply to print. */
export const showable = (value: unknown): unknown =>
  isDeeperThan(value, limits.nesting) ? `[nested more than ${limits.nesting} levels deep]` : value

import { limits } from "./Job.js"

// Values nested a few thousand levels deep overflow the stack of whoever walks them: JSON.stringify, jsonb, a schema.

/** Whether valid JSON text is nested more than `limits.nesting` levels deep. */
export const isTooDeep = (json: string): boolean => {
  // Every level needs two characters.
  if (json.length <= 2 * limits.nesting) return false
  let depth = 0
  let inString = false
  for (let at = 0; at < json.length; at += 1) {
    const code = json.charCodeAt(at)
    if (code === 0x22) inString = !inString
    else if (inString) {
      if (code === 0x5c) at += 1
    } else if (code === 0x5b || code === 0x7b) {
      depth += 1
      if (depth > limits.nesting) return true
    } else if (code === 0x5d || code === 0x7d) depth -= 1
  }
  return false
}

/** The same of a value. */
const isDeeperThan = (value: unknown, levels: number): boolean => {
  if (typeof value !== "object" || value === null) return false
  if (levels === 0) return true
  for (const inner of Array.isArray(value) ? value : Object.values(value)) {
    if (isDeeperThan(inner, levels - 1)) return true
  }
  return false
}

/** What is shown of a value that was stored past our checks and that nobody could print. */
export const showable = (value: unknown): unknown =>
  isDeeperThan(value, limits.nesting) ? `[nested more than ${limits.nesting} levels deep]` : value

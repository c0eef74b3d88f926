import { hasCollection } from "../core/Storable.js"

/** Deeper values may be circular. */
const maxLevels = 1_000

/** Whether the value survives a JSON round trip unchanged. */
const isPlain = (value: unknown, levels = maxLevels): boolean => {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true
  if (typeof value === "number") return Number.isFinite(value)
  if (typeof value !== "object" || "toJSON" in value || levels === 0) return false
  if (Array.isArray(value)) return value.every((each) => isPlain(each, levels - 1))
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return false
  for (const key in value) if (!isPlain((value as Readonly<Record<string, unknown>>)[key], levels - 1)) return false
  return true
}

const asJson = (value: unknown): unknown => {
  const text = JSON.stringify(value)
  return text === undefined ? undefined : JSON.parse(text)
}

/** The payload as the handler will read it: after a JSON round trip, if that changes the value. @internal */
export const storedForm = (payload: unknown): unknown => {
  if (isPlain(payload)) return payload
  try {
    const json = asJson(payload)
    return hasCollection(payload) ? payload : json
  } catch {
    // A cycle or a BigInt. The queue rejects these, a Map and a Set with a reason.
    return payload
  }
}

type Entry = readonly [key: string, value: unknown]

/** PostgreSQL stores the keys of objects by their length, then by their bytes. */
const inOrder = ([a]: Entry, [b]: Entry): number => {
  const [left, right] = [Buffer.byteLength(a), Buffer.byteLength(b)]
  if (left !== right) return left - right
  // The bytes of ASCII are its characters.
  if (left === a.length && right === b.length) return a < b ? -1 : 1
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const sorted = (object: object) => Object.entries(object).sort(inOrder)

/** The same JSON, with the keys of objects in the order in which `jsonb` returns them. */
export const inStoredOrder = (json: unknown): unknown => {
  if (Array.isArray(json)) return json.map(inStoredOrder)
  return isObject(json) ? Object.fromEntries(sorted(json).map(([key, value]) => [key, inStoredOrder(value)])) : json
}

/** The value as JSON text. It is the same for values that are equal as `jsonb`. */
export const canonicalJson = (value: unknown): string =>
  JSON.stringify(value, (_, part: unknown) => (isObject(part) ? Object.fromEntries(sorted(part)) : part))

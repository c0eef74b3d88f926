// The stored form of sealed values, which every process recognizes, with or without keys: { "$sealed": "<key id>.<text>" }.

/** A sealed value as it is stored. */
export interface Sealed {
  /** Id of the key, a dot, and what the codec made of the value. */
  readonly $sealed: string
}

/** A sealed value as it is shown to callers who may not see it, or that no key of the process opens. */
export interface ShownSealed {
  /** Id of the key that sealed the value, and size of the sealed value. */
  readonly $sealed: { readonly key: string; readonly bytes: number }
}

/** The ids of keys as a regular expression, of JavaScript and of PostgreSQL. */
export const keyIds = "[A-Za-z0-9_-]{1,64}"

const keyId = new RegExp(`^${keyIds}$`)

/** Whether the text can be the id of a key. */
export const isKeyId = (text: unknown): text is string => typeof text === "string" && keyId.test(text)

export const keyIdRule = "must be 1 to 64 letters, digits, _ or -"

const hasOneField = (value: object): boolean => {
  let fields = 0
  for (const _ in value) if (++fields > 1) return false
  return fields === 1
}

/** Whether the value is sealed. */
export const isSealed = (value: unknown): value is Sealed =>
  typeof value === "object" &&
  value !== null &&
  "$sealed" in value &&
  typeof value.$sealed === "string" &&
  hasOneField(value)

export const make = (key: string, text: string): Sealed => ({ $sealed: `${key}.${text}` })

/** The id of the key and the text of the codec. Undefined if the value has no key. */
export const partsOf = ({ $sealed: whole }: Sealed): { readonly key: string; readonly text: string } | undefined => {
  const dot = whole.indexOf(".")
  const key = whole.slice(0, Math.max(0, dot))
  return isKeyId(key) ? { key, text: whole.slice(dot + 1) } : undefined
}

/** A sealed value without its content. */
export const shown = (value: Sealed): ShownSealed => ({
  $sealed: { key: partsOf(value)?.key ?? "", bytes: value.$sealed.length }
})

/** How deep in a value that is not sealed itself sealed values are found: SQL may copy them into lists and objects. */
const levels = 4

/**
 * Replaces the sealed values in a value. They are the value itself, or at most four levels deep in it. Returns the same object
 * if it has none.
 */
export const replaced = (value: unknown, replace: (sealed: Sealed) => unknown, depth: number = levels): unknown => {
  if (typeof value !== "object" || value === null) return value
  if (isSealed(value)) return replace(value)
  if (depth === 0) return value
  if (Array.isArray(value)) {
    let copy: Array<unknown> | undefined
    for (let index = 0; index < value.length; index += 1) {
      const made = replaced(value[index], replace, depth - 1)
      if (made === value[index]) continue
      copy ??= [...value]
      copy[index] = made
    }
    return copy ?? value
  }
  let copy: Record<string, unknown> | undefined
  for (const key in value) {
    const before = (value as Readonly<Record<string, unknown>>)[key]
    const made = replaced(before, replace, depth - 1)
    if (made === before) continue
    copy ??= { ...value }
    copy[key] = made
  }
  return copy ?? value
}

/** Whether a value has sealed values in the places where they are found. */
export const hasSealed = (value: unknown): boolean => {
  let found = false
  replaced(value, (sealed) => {
    found = true
    return sealed
  })
  return found
}

/** What was read, before it was opened. */
const stored = new WeakMap<object, unknown>()

/** Remembers what an object was before its sealed values were opened. */
export const opened = <A>(before: A, after: A): A => {
  if (before !== after && typeof after === "object" && after !== null) stored.set(after, before)
  return after
}

/** What was read, with its sealed values as viewers see them: for logs of what callers do. */
export const hidden = <A extends object>(read: A): A => replaced(stored.get(read) ?? read, shown) as A

/**
 * A size limit for JSON with sealed values: base64 needs four bytes for three, and the header of each value names keys. Without
 * sealed values it is the limit itself, which the sealed content was checked against before.
 */
export const roomFor = (value: unknown, maxBytes: number): number =>
  hasSealed(value) ? Math.ceil((maxBytes * 4) / 3) + 8_192 : maxBytes

/** Opened values that look sealed. */
const lookalikes = new WeakSet<object>()

/** Remembers that a value was opened, if it looks sealed: a program may store any JSON. */
export const markOpen = (value: unknown): void => {
  if (isSealed(value)) lookalikes.add(value)
  if (Array.isArray(value)) for (const each of value) if (isSealed(each)) lookalikes.add(each)
}

/** The payload of a claimed job that this process could not open. */
export class Unopened {
  constructor(
    /** Why, as a sentence without a period. */
    readonly reason: string,
    /** Whether no key can open it: it was changed after it was sealed. */
    readonly damaged: boolean
  ) {}
}

/** Why a payload cannot be passed to a handler, if it is still sealed. */
export const unopened = (payload: unknown): Unopened | undefined => {
  if (typeof payload !== "object" || payload === null) return undefined
  if (payload instanceof Unopened) return payload
  const isClosed = (value: unknown) => isSealed(value) && !lookalikes.has(value)
  const sealed: unknown = Array.isArray(payload) ? payload.find(isClosed) : payload
  if (!isSealed(sealed) || lookalikes.has(sealed)) return undefined
  const key = JSON.stringify(partsOf(sealed)?.key ?? "")
  return new Unopened(
    `its payload is sealed with the key ${key}, and this process has no keys: set NIGHTSHIFT_SEAL_KEYS or the option \`codec\``,
    false
  )
}

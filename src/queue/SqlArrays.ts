import type { Brand } from "effect"
import type { Id } from "../core/Id.js"
import type { IdGenerator, JobId } from "../core/Ids.js"

// Encodes arrays in PostgreSQL's text format. The driver's encoder escapes every element; ids, numbers and most names
// need no escaping, and a batch holds thousands of them.

const plainElement = /^[A-Za-z0-9_.:-]+$/

/** Encodes numbers, booleans and ids, which never need quotes. Names do: a queue may be named `null`. */
export const ofPlain = (
  values: ReadonlyArray<number | boolean | (string & Brand.Brand<string>) | Id<string>>
): string => `{${values.join(",")}}`

const quoted = (text: string) => `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`

const isPlain = (text: string) => plainElement.test(text) && (text.length !== 4 || text.toUpperCase() !== "NULL")

/** Encodes strings; null and undefined become NULL. */
export const ofTexts = (values: ReadonlyArray<string | null | undefined>): string => {
  let text = ""
  // Names repeat within a batch.
  let last: string | null | undefined = null
  let element = "NULL"
  for (const value of values) {
    if (value !== last) {
      last = value
      element = value === null || value === undefined ? "NULL" : isPlain(value) ? value : quoted(value)
    }
    text = text === "" ? element : `${text},${element}`
  }
  return `{${text}}`
}

/** Encodes numbers and booleans; null and undefined become NULL. */
export const ofNumbers = (values: ReadonlyArray<number | boolean | null | undefined>): string => {
  let text = ""
  for (const value of values) text = text === "" ? `${value ?? "NULL"}` : `${text},${value ?? "NULL"}`
  return `{${text}}`
}

/** Joins JSON texts into one JSON array; null becomes JSON null. */
export const ofJson = (texts: ReadonlyArray<string | null>): string => {
  let joined = ""
  for (const text of texts) joined = joined === "" ? `${text}` : `${joined},${text}`
  return `[${joined}]`
}

// Encodes arrays of ids in PostgreSQL's binary format: parsing an id from text costs the server as much as inserting it
// into an index. New ids are written as bytes and as text in one pass.

/** OID of PostgreSQL's `uuid` type. */
const uuid = 2950

const header = 20
const idBytes = 16

export interface NewIds {
  readonly ids: ReadonlyArray<JobId>
  readonly array: Buffer
}

export const make = (generator: IdGenerator, count: number, now: number): NewIds => {
  const array = Buffer.allocUnsafe(header + count * (4 + idBytes))
  const view = new DataView(array.buffer, array.byteOffset, array.byteLength)
  // Array header: one dimension, no nulls, lower bound 1.
  for (const [place, word] of [1, 0, uuid, count, 1].entries()) view.setInt32(4 * place, word)
  const ids: Array<JobId> = []
  for (let offset = header; offset < array.byteLength; offset += 4 + idBytes) {
    view.setInt32(offset, idBytes)
    ids.push(generator.jobInto(now, view, offset + 4))
  }
  return { ids, array }
}

import type { IdGenerator, JobId } from "../core/Ids.js"

// PostgreSQL's binary form of an array of ids: reading them as text costs the server as much as storing one of them in an
// index does. Ids that are being made are written as bytes and as text in one go.

/** The oid of PostgreSQL's type. */
const uuid = 2950

const header = 20
const idBytes = 16

export interface NewIds {
  readonly ids: ReadonlyArray<JobId>
  /** The parameter of a statement, for `uuid[]`. */
  readonly array: Buffer
}

export const make = (generator: IdGenerator, count: number, now: number): NewIds => {
  const array = Buffer.allocUnsafe(header + count * (4 + idBytes))
  const view = new DataView(array.buffer, array.byteOffset, array.byteLength)
  // One dimension, without nulls, from one on.
  for (const [place, word] of [1, 0, uuid, count, 1].entries()) view.setInt32(4 * place, word)
  const ids: Array<JobId> = []
  for (let offset = header; offset < array.byteLength; offset += 4 + idBytes) {
    view.setInt32(offset, idBytes)
    ids.push(generator.jobInto(now, view, offset + 4))
  }
  return { ids, array }
}

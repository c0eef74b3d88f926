import type { IdGenerator, JobId } from "../core/Ids.js"

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

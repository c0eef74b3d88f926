import { FiberRef } from "effect"

// Ids of jobs carry the cell of the fleet that stores them, so that a lookup asks one cell.

/** FNV-1a of the text in UTF-8, as 32 bits. */
export const fnv1a = (text: string): number => {
  let hash = 0x811c9dc5
  for (let place = 0; place < text.length; place += 1) {
    const code = text.charCodeAt(place)
    if (code > 0x7f) return fnv1aOfBytes(new TextEncoder().encode(text))
    hash = Math.imul(hash ^ code, 0x01000193)
  }
  return hash >>> 0
}

const fnv1aOfBytes = (bytes: Uint8Array): number => {
  let hash = 0x811c9dc5
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193)
  return hash >>> 0
}

/** The finalizer of MurmurHash3: every bit of the input changes half of the output's. */
export const mixed = (hash: number): number => {
  let mix = hash
  mix = Math.imul(mix ^ (mix >>> 16), 0x85ebca6b)
  mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2ae35)
  return (mix ^ (mix >>> 16)) >>> 0
}

/** The tag of a cell's ids: 12 bits of a hash of its name. */
export const ofName = (cell: string): number => mixed(fnv1a(cell)) >>> 20

/** What the services of a cell know of its fleet. */
export interface InFleet {
  /** In the ids of its jobs. */
  readonly tag: number
  /** Queues that it shares with other cells, with the number of cells. */
  readonly divided: ReadonlyMap<string, number>
}

/** The cell whose services are built: generators of ids and settings of queues depend on it. */
export const current: FiberRef.FiberRef<InFleet | undefined> = FiberRef.unsafeMake<InFleet | undefined>(undefined)

/** The tag in an id: the last three digits of its fourth group. Ids that no cell made have random digits there. */
export const ofId = (id: string): number => Number.parseInt(id.slice(20, 23), 16)

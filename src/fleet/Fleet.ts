import type { Redacted } from "effect"
import * as CellTag from "../core/CellTag.js"

/** One complete Nightshift of a fleet. */
export interface Cell extends CellTag.InFleet {
  /** Unique in the fleet. */
  readonly name: string
  /** URL of its PostgreSQL. */
  readonly database: Redacted.Redacted
  /** Schema of its tables, if not that of DATABASE_SCHEMA. */
  readonly schema: string | undefined
  /** URL for notifications, if `database` leads to a pooler. */
  readonly listen: Redacted.Redacted | undefined
  /** URL of a replica for lists and charts. */
  readonly read: Redacted.Redacted | undefined
  /** URL of its HTTP service. */
  readonly api: string | undefined
}

/** Several cells, and which of them has a queue. */
export interface Fleet {
  /** All cells by name, in the order of the declaration. */
  readonly cells: ReadonlyMap<string, Cell>
  /** Cells of the queues that are listed. A queue with several cells is divided by key. */
  readonly queues: ReadonlyMap<string, ReadonlyArray<Cell>>
  /** Has all other queues. */
  readonly main: Cell
}

/** The cells of a queue. */
export const cellsOf = (fleet: Fleet, queue: string): ReadonlyArray<Cell> => fleet.queues.get(queue) ?? [fleet.main]

export const namesOf = (cells: ReadonlyArray<Cell>): string => cells.map(({ name }) => name).join(", ")

/** Hashes of the names of cells. */
const seeds = new WeakMap<Cell, number>()
const seedOf = (cell: Cell): number => {
  const known = seeds.get(cell)
  if (known !== undefined) return known
  const seed = CellTag.mixed(CellTag.fnv1a(cell.name))
  seeds.set(cell, seed)
  return seed
}

/**
 * The cell of a key: the one with the highest score for it. A cell that is added takes over only the keys for which it has the
 * highest score.
 */
export const rendezvous = (cells: ReadonlyArray<Cell>, key: string): Cell | undefined => {
  const hash = CellTag.fnv1a(key)
  let best: Cell | undefined
  let bestScore = -1
  for (const cell of cells) {
    const score = CellTag.mixed(hash ^ seedOf(cell))
    if (score > bestScore) {
      best = cell
      bestScore = score
    }
  }
  return best
}

/** What decides the cell of a job in a queue that is divided by key. */
export interface Placed {
  readonly queue: string
  readonly key?: string | undefined
  readonly dedupe?: { readonly key: string } | undefined
  readonly id?: string | undefined
}

/** The cell that stores a job: by its key, else its dedupe key, else its id, else any. */
export const place = (fleet: Fleet, job: Placed): Cell => {
  const cells = fleet.queues.get(job.queue)
  if (cells === undefined) return fleet.main
  const [first = fleet.main] = cells
  if (cells.length < 2) return first
  const key = job.key ?? job.dedupe?.key ?? job.id
  const chosen = key === undefined ? cells[Math.floor(Math.random() * cells.length)] : rendezvous(cells, key)
  return chosen ?? first
}

/** The cell that an id names, if any. */
export const cellOfId = (fleet: Fleet, id: string): Cell | undefined => {
  const tag = CellTag.ofId(id)
  for (const cell of fleet.cells.values()) if (cell.tag === tag) return cell
  return undefined
}

// Counts which operations were hit by which faults. Summed over seeds, it shows the combinations that never occurred.

/**
 * A fault of one operation. `refused`: the operation was not applied. `lost`: it was applied, but its reply was lost.
 * `slow`: it is applied seconds later. `dropped`: a notification was dropped. `disconnected`: its process loses the
 * connection before the operation is applied or before the reply. `killed`: its process is killed at one of these times.
 * Steps of the plan can also disconnect or kill the process while an operation is in flight.
 */
export type FaultKind = "refused" | "lost" | "slow" | "dropped" | "disconnected" | "killed"

/** How an operation can be hit. */
export type Hit = FaultKind

/** Faults that can hit a database operation. */
const hitsOfCalls: ReadonlyArray<FaultKind> = ["refused", "lost", "slow", "disconnected", "killed"]
/** Faults of a statement inside a transaction, which takes no virtual time and is therefore never slow. */
const hitsInside: ReadonlyArray<FaultKind> = ["refused", "lost"]
const hitsOfHints: ReadonlyArray<FaultKind> = ["dropped"]

/** How an operation reaches the database: as a call, as a statement inside a transaction, or as a notification. */
export type Way = "call" | "inside" | "hint"
const hitsOf: Readonly<Record<Way, ReadonlyArray<FaultKind>>> = {
  call: hitsOfCalls,
  inside: hitsInside,
  hint: hitsOfHints
}

/** One operation: how it was made, how often, and how often each fault hit it. */
export interface OperationCoverage {
  /** Name of the operation, such as `Queue.claim`. */
  readonly operation: string
  /** How the operation reached the database. */
  readonly way: Way
  /** How often the operation ran while faults were active. */
  readonly count: number
  /** How often each fault hit the operation. */
  readonly hits: Readonly<Partial<Record<FaultKind, number>>>
}

/** Coverage of one or more runs. `steps` counts the steps of the plans: killed pods, clock steps, operators' actions. */
export interface Coverage {
  /** Operations by name, with the faults that hit them. */
  readonly operations: ReadonlyArray<OperationCoverage>
  /** How often each step of the plans ran, by name. */
  readonly steps: Readonly<Record<string, number>>
}

export const none: Coverage = { operations: [], steps: {} }

/** Counts the operations of a run, while faults are active. */
export class CoverageCounter {
  private readonly counted = new Map<
    string,
    { operation: string; way: Way; count: number; hits: Partial<Record<FaultKind, number>> }
  >()

  /** Counts an operation without a fault, or with one. */
  add(way: Way, operation: string, count: number, hit?: FaultKind): void {
    const key = `${way} ${operation}`
    const entry = this.counted.get(key) ?? { operation, way, count: 0, hits: {} }
    this.counted.set(key, entry)
    entry.count += count
    if (hit !== undefined) entry.hits[hit] = (entry.hits[hit] ?? 0) + 1
  }

  get operations(): ReadonlyArray<OperationCoverage> {
    return [...this.counted.values()]
  }
}

/** Adds coverages. */
export const sum = (all: ReadonlyArray<Coverage>): Coverage => {
  const counter = new Map<string, OperationCoverage>()
  const steps: Record<string, number> = {}
  for (const { operations, steps: more } of all) {
    for (const each of operations) {
      const key = `${each.way} ${each.operation}`
      const known = counter.get(key)
      const hits = { ...known?.hits }
      for (const [hit, count] of Object.entries(each.hits))
        hits[hit as FaultKind] = (hits[hit as FaultKind] ?? 0) + count
      counter.set(key, { ...each, count: (known?.count ?? 0) + each.count, hits })
    }
    for (const [step, count] of Object.entries(more)) steps[step] = (steps[step] ?? 0) + count
  }
  const operations = [...counter.values()].sort((a, b) =>
    a.way === b.way ? (a.operation < b.operation ? -1 : 1) : a.way < b.way ? -1 : 1
  )
  return { operations, steps: Object.fromEntries(Object.entries(steps).sort(([a], [b]) => (a < b ? -1 : 1))) }
}

/** The faults that never hit an operation, as `Queue.claim: slow`. */
export const untouched = ({ operations }: Coverage): ReadonlyArray<string> =>
  operations.flatMap(({ hits, operation, way }) => {
    const missing = hitsOf[way].filter((hit) => (hits[hit] ?? 0) === 0)
    return missing.length === 0 ? [] : [`${named(operation, way)}: ${missing.join(", ")}`]
  })

const named = (operation: string, way: Way) => (way === "inside" ? `${operation} (in a transaction)` : operation)

const columns: ReadonlyArray<FaultKind> = [...hitsOfCalls, "dropped"]

/** A table of operations by fault; `-` where the fault cannot occur. */
export const table = ({ operations, steps }: Coverage): string => {
  const rows = operations.map(({ count, hits, operation, way }) => [
    named(operation, way),
    String(count),
    ...columns.map((hit) => (hitsOf[way].includes(hit) ? String(hits[hit] ?? 0) : "-"))
  ])
  const lines = [["operation", "count", ...columns], ...rows]
  const widths = lines[0]?.map((_, column) => Math.max(...lines.map((cells) => cells[column]?.length ?? 0))) ?? []
  const text = lines.map((cells) =>
    cells
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join("  ")
  )
  return [...text, "", ...Object.entries(steps).map(([step, count]) => `${step}: ${count}`)].join("\n")
}

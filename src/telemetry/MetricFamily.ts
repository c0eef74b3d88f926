import type { MetricSpec } from "./MetricSpec.js"

/** One series of a metric. Plain calls instead of Effects, because every job uses several. */
export interface Series {
  readonly add: (amount: number) => void
  readonly set: (value: number) => void
  readonly observe: (value: number) => void
}

/** A series and its state: a value, or a histogram's sum, count and buckets (the last one unbounded). */
export class Cell implements Series {
  value = 0
  count = 0
  readonly buckets: Array<number>

  constructor(
    readonly bounds: ReadonlyArray<number>,
    readonly labelValues: ReadonlyArray<string>
  ) {
    this.buckets = bounds.map(() => 0).concat(0)
  }

  readonly add = (amount: number): void => {
    this.value += amount
  }

  readonly set = (value: number): void => {
    this.value = value
  }

  readonly observe = (value: number): void => {
    this.value += value
    this.count += 1
    const index = this.bounds.findIndex((bound) => value <= bound)
    const bucket = index === -1 ? this.bounds.length : index
    this.buckets[bucket] = (this.buckets[bucket] ?? 0) + 1
  }
}

export class Family {
  private readonly cells = new Map<string, Cell>()

  constructor(readonly spec: MetricSpec) {}

  get series(): Iterable<Cell> {
    return this.cells.values()
  }

  cell(labelValues: ReadonlyArray<string>): Cell {
    const key = labelValues.join("\u0000")
    const known = this.cells.get(key)
    if (known !== undefined) return known
    const cell = new Cell(this.spec.bounds, labelValues)
    this.cells.set(key, cell)
    return cell
  }

  drop(labelValues: ReadonlyArray<string>): void {
    this.cells.delete(labelValues.join("\u0000"))
  }
}

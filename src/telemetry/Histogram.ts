// Buckets grow by an eighth of an octave, so a quantile is off by at most 4.4 %, whether recorded here or merged from
// many histograms. All histograms have the same buckets, so merging is addition. Values are milliseconds, from 10
// microseconds (smaller values share the first bucket) to 127 days (larger values share the last).

const perOctave = 8
const octaves = 40
/** Buckets per bin of a drawn histogram. */
const perBin = 4
const lowest = 0.01
const highest = lowest * 2 ** octaves
const scale = perOctave / Math.LN2
const size = octaves * perOctave + 1

/** The value of a bucket with the smallest relative error to both of its ends. */
const bucketMiddle = (place: number): number => (lowest * 2 ** (place / perOctave) * 2) / (1 + 2 ** (1 / perOctave))

const bucketIndex = (value: number): number =>
  value <= lowest ? 0 : Math.min(size - 1, Math.ceil(Math.log(value / lowest) * scale - 1e-9))

/** A serializable histogram: non-empty buckets with their counts. Repeated buckets are summed. */
export interface Sketch {
  readonly places: ReadonlyArray<number>
  readonly counts: ReadonlyArray<number>
  readonly sum: number
  readonly max: number
}

/** Summary of a histogram; quantiles are absent if nothing was recorded. */
export interface Summary {
  readonly count: number
  readonly sum: number
  readonly p50: number | undefined
  readonly p95: number | undefined
  readonly p99: number | undefined
  readonly max: number | undefined
}

export const emptySketch: Sketch = { places: [], counts: [], sum: 0, max: 0 }

/**
 * A latency histogram in bounded memory: exact count, sum and maximum, quantiles to 4.4 %. Plain calls, because every
 * job uses it.
 */
export class Histogram {
  count = 0
  sum = 0
  max = 0
  private readonly counts = new Float64Array(size)

  static of(...sketches: ReadonlyArray<Sketch>): Histogram {
    const whole = new Histogram()
    for (const sketch of sketches) whole.add(sketch)
    return whole
  }

  /** Records a value. A value that is not a positive number counts as 0: the clock may have gone back. */
  record(value: number, times = 1): void {
    const known = value > 0 ? Math.min(value, highest) : 0
    const place = bucketIndex(known)
    this.counts[place] = (this.counts[place] ?? 0) + times
    this.count += times
    this.sum += known * times
    if (known > this.max) this.max = known
  }

  add({ counts, max, places, sum }: Sketch): void {
    for (let index = 0; index < places.length; index += 1) {
      const place = Math.min(size - 1, Math.max(0, places[index] ?? 0))
      const count = counts[index] ?? 0
      this.counts[place] = (this.counts[place] ?? 0) + count
      this.count += count
    }
    this.sum += sum
    if (max > this.max) this.max = max
  }

  /** Returns the value that the given share (0 to 1) of all values does not exceed. */
  quantile(share: number): number | undefined {
    if (this.count === 0) return undefined
    const rank = Math.max(1, Math.ceil(share * this.count))
    if (rank >= this.count) return this.max
    let passed = 0
    let place = 0
    while (place < size - 1) {
      passed += this.counts[place] ?? 0
      if (passed >= rank) break
      place += 1
    }
    return Math.min(place === 0 ? lowest : bucketMiddle(place), this.max)
  }

  summary(): Summary {
    return {
      count: this.count,
      sum: this.sum,
      p50: this.quantile(0.5),
      p95: this.quantile(0.95),
      p99: this.quantile(0.99),
      max: this.quantile(1)
    }
  }

  /** Non-empty bins of half an octave, in order: above `from`, up to `to`. */
  bins(): ReadonlyArray<{ readonly from: number; readonly to: number; readonly count: number }> {
    const edge = (bin: number) => (bin < 0 ? 0 : lowest * 2 ** ((bin * perBin) / perOctave))
    return Array.from({ length: Math.ceil(size / perBin) + 1 }, (_, bin) => {
      const last = bin * perBin
      const count = this.counts.subarray(Math.max(0, last - perBin + 1), last + 1).reduce((sum, n) => sum + n, 0)
      return { from: edge(bin - 1), to: edge(bin), count }
    }).filter(({ count }) => count > 0)
  }

  sketch(other?: Histogram): Sketch {
    if (this.count === 0 && (other === undefined || other.count === 0)) return emptySketch
    const places: Array<number> = []
    const counts: Array<number> = []
    // Ends with the last value: most histograms of a minute hold few, in low places.
    let left = this.count + (other?.count ?? 0)
    for (let place = 0; place < size && left > 0; place += 1) {
      const count = (this.counts[place] ?? 0) + (other?.counts[place] ?? 0)
      if (count > 0) {
        places.push(place)
        counts.push(count)
        left -= count
      }
    }
    return { places, counts, sum: this.sum + (other?.sum ?? 0), max: Math.max(this.max, other?.max ?? 0) }
  }

  clear(): void {
    if (this.count === 0) return
    this.counts.fill(0)
    this.count = 0
    this.sum = 0
    this.max = 0
  }
}

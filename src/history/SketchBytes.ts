import { Histogram, type Sketch, type Summary } from "../telemetry/Histogram.js"

// Stores histograms in a bytea column: pairs of bucket index and count, each a varint (seven bits per byte, lowest
// first). The concatenation of two encodings is the merged histogram, so the database merges by concatenating.

const push = (bytes: Array<number>, number: number) => {
  let rest = number
  while (rest >= 0x80) {
    bytes.push((rest % 0x80) | 0x80)
    rest = Math.floor(rest / 0x80)
  }
  bytes.push(rest)
}

/** Encodes a histogram as bytea text. */
export const encode = ({ counts, places }: Sketch): string => {
  const bytes: Array<number> = []
  for (const [index, place] of places.entries()) {
    push(bytes, place)
    push(bytes, counts[index] ?? 0)
  }
  return `\\x${Buffer.from(bytes).toString("hex")}`
}

/** Decodes one encoding, or several concatenated ones. */
export const decode = (bytes: Uint8Array | null, sum: number | null, max: number | null): Sketch => {
  const numbers: [places: Array<number>, counts: Array<number>] = [[], []]
  let which = 0
  let number = 0
  let factor = 1
  for (const byte of bytes ?? []) {
    number += (byte & 0x7f) * factor
    factor *= 0x80
    if (byte >= 0x80) continue
    numbers[which % 2]?.push(number)
    which += 1
    number = 0
    factor = 1
  }
  const [places, counts] = numbers
  return { places, counts, sum: sum ?? 0, max: max ?? 0 }
}

/** Summarizes concatenated encodings, with their total sum and maximum. */
export const summary = (bytes: Uint8Array | null, sum: number | null, max: number | null): Summary =>
  Histogram.of(decode(bytes, sum, max)).summary()

export const columns = (name: string) => [`${name}_sum`, `${name}_max`, name]

export const types = (name: string) => `${name}_sum float8, ${name}_max float8, ${name} bytea`

export const fields = (name: string, sketch: Sketch) => ({
  [`${name}_sum`]: sketch.sum,
  [`${name}_max`]: sketch.max,
  [name]: encode(sketch)
})

/** SQL that merges the histograms of a group of rows, with the same column names. */
export const merged = (name: string) =>
  `sum(${name}_sum) as ${name}_sum, max(${name}_max) as ${name}_max, string_agg(${name}, ''::bytea) as ${name}`

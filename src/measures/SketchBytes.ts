import { Histogram, type Sketch, type Summary } from "../telemetry/Histogram.js"

// Histograms in a column: pairs of place and count, each a number of seven bits a byte, lowest first. Two of them written
// one after the other are again a histogram, the two merged, so the database merges by concatenating.

const push = (bytes: Array<number>, number: number) => {
  let rest = number
  while (rest >= 0x80) {
    bytes.push((rest % 0x80) | 0x80)
    rest = Math.floor(rest / 0x80)
  }
  bytes.push(rest)
}

/** As PostgreSQL reads a bytea from text. */
export const encode = ({ counts, places }: Sketch): string => {
  const bytes: Array<number> = []
  for (const [index, place] of places.entries()) {
    push(bytes, place)
    push(bytes, counts[index] ?? 0)
  }
  return `\\x${Buffer.from(bytes).toString("hex")}`
}

/** Reads what was encoded, or many that were joined. */
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

/** What joined bytes say, with the sum and the maximum of all of them. */
export const summary = (bytes: Uint8Array | null, sum: number | null, max: number | null): Summary =>
  Histogram.of(decode(bytes, sum, max)).summary()

/** The columns of a histogram called `name`. */
export const columns = (name: string) => [`${name}_sum`, `${name}_max`, name]

/** Their types, for `jsonb_to_recordset`. */
export const types = (name: string) => `${name}_sum float8, ${name}_max float8, ${name} bytea`

/** Their values, as JSON gives them to the statement that stores them. */
export const fields = (name: string, sketch: Sketch) => ({
  [`${name}_sum`]: sketch.sum,
  [`${name}_max`]: sketch.max,
  [name]: encode(sketch)
})

/** The histograms of a group of rows, merged, under the same names. */
export const merged = (name: string) =>
  `sum(${name}_sum) as ${name}_sum, max(${name}_max) as ${name}_max, string_agg(${name}, ''::bytea) as ${name}`

import { instant } from "../database/SqlInstant.js"
// Instants travel as epoch milliseconds.

/** Rows whose instant lies in the range of the first two parameters. */
export const during = (column: string) => `${column} >= ${instant("$1")} and ${column} < ${instant("$2")}`

/** The start of the bucket in which an instant lies, when buckets are as wide as a parameter says. */
export const bucketStart = (column: string, width: string) =>
  `floor(extract(epoch from ${column}) * 1000 / ${width})::float8 * ${width}`

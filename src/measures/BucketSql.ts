import { instant } from "../database/SqlInstant.js"

// Times are passed as epoch milliseconds.

/** Rows within the range given by the first two parameters. */
export const during = (column: string) => `${column} >= ${instant("$1")} and ${column} < ${instant("$2")}`

/** Start of the bucket that contains a time; `width` is the parameter with the bucket width. */
export const bucketStart = (column: string, width: string) =>
  `floor(extract(epoch from ${column}) * 1000 / ${width})::float8 * ${width}`

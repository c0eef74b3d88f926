// Statistics of a sample.

const ascending = (values) => [...values].sort((a, b) => a - b)

/** Returns a quantile, or undefined for an empty sample. */
export const quantile = (values, share) => {
  if (values.length === 0) return undefined
  const sorted = ascending(values)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
}

export const median = (values) => {
  if (values.length === 0) return undefined
  const sorted = ascending(values)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

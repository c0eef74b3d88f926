const width = 64
const height = 16

/** A small line of the last hour. */
export const Trend = ({ label, values }: { readonly label: string; readonly values: ReadonlyArray<number> }) => {
  const highest = Math.max(1, ...values)
  const step = width / Math.max(1, values.length - 1)
  const points = values.map(
    (value, at) => `${(at * step).toFixed(1)},${(height - 1 - (value / highest) * (height - 2)).toFixed(1)}`
  )
  const words = `${label} in the last hour: ${(values[0] ?? 0).toLocaleString()} at its start, ${(values.at(-1) ?? 0).toLocaleString()} now, ${highest.toLocaleString()} at most`
  return (
    <svg class="trend" role="img" aria-label={words} width={width} height={height} viewBox={`0 0 ${width} ${height}`}>
      <title>{words}</title>
      <polyline points={points.join(" ")} />
    </svg>
  )
}

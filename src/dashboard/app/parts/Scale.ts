// Places on a time axis, to scale.

export interface Axis {
  /** The ends, in epoch milliseconds. */
  readonly start: number
  readonly ends: number
}

/** The position of a time span on the axis, as shares of its length, clipped to the axis. */
export const positionOn = (of: { readonly from: number; readonly to: number }, { ends, start }: Axis) => {
  const share = (at: number) => Math.min(1, Math.max(0, (at - start) / Math.max(1, ends - start)))
  return { from: share(of.from), length: share(of.to) - share(of.from) }
}

const second = 1_000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

/** Round distances between ticks. */
const distances = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((count) => count * second),
  ...[1, 2, 5, 10, 15, 30].map((count) => count * minute),
  ...[1, 2, 3, 6, 12].map((count) => count * hour),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000].map((count) => count * day)
]

const maxTicks = 5

/** Ticks on the axis at round distances from `origin`, in milliseconds since then. */
export const ticksOf = ({ ends, start }: Axis, origin: number = start): ReadonlyArray<number> => {
  const length = ends - start
  const distance = distances.find((each) => length / each < maxTicks) ?? Math.ceil(length / maxTicks)
  const first = Math.ceil((start - origin) / distance)
  const last = Math.floor((ends - origin) / distance)
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => (first + index) * distance)
}

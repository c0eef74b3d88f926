/** How a number was found: counted to the end, estimated, or counted up to a limit. */
export const countKinds = ["exact", "estimate", "atLeast"] as const
export type CountKind = (typeof countKinds)[number]

/** A number of jobs, and how far to trust it. */
export interface Count {
  readonly value: number
  readonly kind: CountKind
}

export const exact = (value: number): Count => ({ value, kind: "exact" })

/** Adds counts. The sum is only as good as its worst part. */
export const sum = (counts: ReadonlyArray<Count>): Count => ({
  value: counts.reduce((all, { value }) => all + value, 0),
  kind: countKinds.findLast((kind) => counts.some((count) => count.kind === kind)) ?? "exact"
})

/** Formats a count: `442`, `~50000` for an estimate, `442+` for a lower bound. */
export const text = ({ kind, value }: Count, format: (value: number) => string = String): string => {
  if (kind === "atLeast") return `${format(value)}+`
  return kind === "estimate" && value > 0 ? `~${format(value)}` : format(value)
}

/** Formats a number in short form: `9,999`, `10.5K`. */
export const brief = (value: number): string =>
  value < 10_000
    ? value.toLocaleString()
    : new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value)

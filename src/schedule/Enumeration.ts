/** The matching values of a field in ascending order, and their regularity. */
export interface Values {
  readonly all: ReadonlyArray<number>
  readonly first: number
  readonly last: number
  /** The distance between neighbours, if there are several values and all distances are equal. */
  readonly step: number | undefined
  /**
   * Whether the distance also holds from the last value to the first of the next cycle, as for minutes 5, 25 and 45.
   */
  readonly isRound: boolean
  /** Whether every value of the field matches. */
  readonly isEvery: boolean
}

/** Analyses a field that has `size` values starting at `least`. */
export const valuesOf = (matching: ReadonlySet<number>, least: number, size: number): Values => {
  const all = [...matching].filter((value) => value >= least && value < least + size).sort((a, b) => a - b)
  const [first = least, second] = all
  const step = second === undefined ? undefined : second - first
  const isEven = step !== undefined && all.every((value, index) => value === first + index * step)
  return {
    all,
    first,
    last: all.at(-1) ?? first,
    step: isEven ? step : undefined,
    isRound: isEven && all.length * step === size,
    isEvery: all.length === size
  }
}

/** Joins texts: `a`, `a and b`, `a, b and c`. */
export const listed = (texts: ReadonlyArray<string>): string =>
  texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`

/** Lists values, with three or more consecutive ones as a range: `1, 3 to 5 and 9`. */
export const runs = (values: ReadonlyArray<number>, name: (value: number) => string = String): string => {
  const spans: Array<[first: number, last: number]> = []
  for (const value of values) {
    const open = spans.at(-1)
    if (open !== undefined && open[1] === value - 1) open[1] = value
    else spans.push([value, value])
  }
  return listed(
    spans.flatMap(([first, last]) => {
      if (last - first >= 2) return [`${name(first)} to ${name(last)}`]
      return first === last ? [name(first)] : [name(first), name(last)]
    })
  )
}

const endings: Readonly<Record<number, string>> = { 1: "st", 2: "nd", 3: "rd" }

/** `1st`, `2nd`, `11th`. */
export const ordinal = (value: number): string =>
  `${value}${Math.floor(value / 10) % 10 === 1 ? "th" : (endings[value % 10] ?? "th")}`

/** Minimum number of evenly spaced values to describe by their distance. */
const leastEven = 4

/** Returns the distance if the values should be described by it. */
export const spacedBy = ({ all, step }: Values): number | undefined =>
  step !== undefined && step > 1 && all.length >= leastEven ? step : undefined

/** Describes the values of one field: `minutes 5 and 20`, `every 7th minute from 0 to 56`. */
export const within = (values: Values, unit: string): string => {
  const { all, first, isEvery, last } = values
  const step = spacedBy(values)
  if (isEvery) return `every ${unit}`
  if (step !== undefined) return `every ${ordinal(step)} ${unit} from ${first} to ${last}`
  return `${unit}${all.length === 1 ? "" : "s"} ${runs(all)}`
}

/** The values of a field that match, in order, and what is regular about them. */
export interface Values {
  readonly all: ReadonlyArray<number>
  readonly first: number
  readonly last: number
  /** The one distance between them, where there are several and there is one. */
  readonly step: number | undefined
  /** Whether the next round goes on at the same distance, as minutes 5, 25 and 45 do. */
  readonly isRound: boolean
  /** Whether nothing is left out. */
  readonly isEvery: boolean
}

/** Of a field with so many values from `least` on. */
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

/** `a`, `a and b`, `a, b and c`. */
export const listed = (texts: ReadonlyArray<string>): string =>
  texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`

/** Values with those that follow each other drawn together: `1, 3 to 5 and 9`. Two neighbours stay two. */
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

/** From so many on, values at one distance are said as that distance. */
const leastEven = 4

/** The distance of values that are said by it. */
export const spacedBy = ({ all, step }: Values): number | undefined =>
  step !== undefined && step > 1 && all.length >= leastEven ? step : undefined

/** The values of one field within those of the one above it: `minutes 5 and 20`, `every 7th minute from 0 to 56`. */
export const within = (values: Values, unit: string): string => {
  const { all, first, isEvery, last } = values
  const step = spacedBy(values)
  if (isEvery) return `every ${unit}`
  if (step !== undefined) return `every ${ordinal(step)} ${unit} from ${first} to ${last}`
  return `${unit}${all.length === 1 ? "" : "s"} ${runs(all)}`
}

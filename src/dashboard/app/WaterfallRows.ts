import type { Axis } from "./parts/Scale.js"
import type { Bar } from "./Waterfall.js"

// The rows of a waterfall: the bars that are looked for, with many children of one step folded into one row.

/** Children of one step that are shown as one row. */
export interface Family {
  /** Unique among the rows. */
  readonly key: string
  /** The step that started them. */
  readonly step: string
  readonly bars: ReadonlyArray<Bar>
  readonly isOpen: boolean
}

export type Row = Bar | Family

/** More children of a step than this start folded. */
const foldFrom = 10

export const isFailed = ({ colour }: Pick<Bar, "colour">): boolean => colour === "dead" || colour === "retrying"

export interface Look {
  readonly failedOnly: boolean
  /** The part of the time axis that is shown; undefined for all of it. */
  readonly part: Axis | undefined
  /** Steps whose children are shown. */
  readonly open: ReadonlySet<string>
}

const isWithin = ({ from, to }: Bar, part: Axis | undefined) =>
  part === undefined || (from <= part.ends && to >= part.start)

/** The rows in order. */
export const rowsOf = (bars: ReadonlyArray<Bar>, { failedOnly, open, part }: Look): ReadonlyArray<Row> => {
  const looked = bars.filter((bar) => isWithin(bar, part) && (!failedOnly || isFailed(bar)))
  const rows: Array<Row> = []
  for (let at = 0; at < looked.length; ) {
    const bar = looked[at] as Bar
    const step = bar.child?.step
    let end = at + 1
    while (step !== undefined && looked[end]?.child?.step === step) end += 1
    const family = looked.slice(at, end)
    const isOpen = step !== undefined && open.has(step)
    if (step !== undefined && family.length > foldFrom) {
      rows.push({ key: `family ${step}`, step, bars: family, isOpen })
      if (isOpen) rows.push(...family)
    } else rows.push(...family)
    at = end
  }
  return rows
}

/** A number of children in the same state. */
interface Part {
  /** The state in words. */
  readonly state: string
  readonly colour: string
  readonly count: number
}

/** The children by state, the most frequent first. */
export const partsOf = (bars: ReadonlyArray<Bar>): ReadonlyArray<Part> => {
  const parts = new Map<string, Part>()
  for (const { colour, detail: state = "" } of bars) {
    parts.set(state, { state, colour, count: (parts.get(state)?.count ?? 0) + 1 })
  }
  return [...parts.values()].sort((a, b) => b.count - a.count)
}

/** A family as one bar, from its first start to its last end, in the colour of most children. */
export const familyBar = ({ bars, key, step }: Family): Bar => {
  return {
    key,
    name: `${bars.length.toLocaleString()} children of ${step}`,
    kind: "",
    colour: partsOf(bars)[0]?.colour ?? "done",
    from: bars.reduce((least, { from }) => Math.min(least, from), Infinity),
    to: bars.reduce((most, { to }) => Math.max(most, to), 0),
    open: bars.some(({ open }) => open)
  }
}

/** A part of the axis with this middle and length, moved so that it does not leave the axis. */
export const partAround = (whole: Axis, middle: number, length: number): Axis | undefined => {
  const all = whole.ends - whole.start
  if (length >= all) return undefined
  const start = Math.min(Math.max(whole.start, middle - length / 2), whole.ends - length)
  return { start, ends: start + length }
}

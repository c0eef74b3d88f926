import { Duration, Either, Schema } from "effect"
import * as DurationText from "../core/DurationText.js"
import { Expected } from "../core/ExpectedError.js"
import { type Grain, grains } from "../telemetry/BucketCount.js"

const maxPoints = 1_500

export class TooManyPoints extends Expected<TooManyPoints>(400, { field: "bucket" })("TooManyPoints", {
  points: Schema.Number,
  /** Smallest allowed bucket width, as text. */
  narrowest: Schema.String
}) {
  override get message(): string {
    return `The range has ${this.points} buckets, but the maximum is ${maxPoints}. Use buckets of at least ${this.narrowest}, or a shorter range.`
  }
}

/** A time range in epoch milliseconds; the end is exclusive. */
export interface Range {
  readonly from: number
  readonly to: number
}

/** A range divided into equal buckets that start at multiples of their width. */
export interface Grid extends Range {
  readonly width: number
  readonly points: number
  /** Widest stored bucket width that divides these buckets. */
  readonly grain: Grain
}

const minute = 60_000

/** Rounds up to whole minutes, the finest width stored. */
const wholeMinutes = (millis: number) => Math.max(1, Math.ceil(millis / minute)) * minute

const grainOf = (width: number): Grain => grains.findLast((grain) => width % (grain * minute) === 0) ?? 1

export const of = ({ from, to }: Range, width: Duration.Duration): Either.Either<Grid, TooManyPoints> => {
  const step = wholeMinutes(Duration.toMillis(width))
  const first = Math.floor(from / step) * step
  const end = Math.max(first + step, Math.ceil(to / step) * step)
  const points = (end - first) / step
  return points <= maxPoints
    ? Either.right({ from: first, to: end, width: step, points, grain: grainOf(step) })
    : Either.left(new TooManyPoints({ points, narrowest: DurationText.format(narrowest({ from, to })) }))
}

/** One bucket less than the maximum, because a range that starts inside a bucket touches one more. */
const narrowest = ({ from, to }: Range) => wholeMinutes((to - from) / (maxPoints - 1))

/** Chart bucket widths, in minutes. From ten minutes on they can be read from wider stored buckets. */
const chartMinutes = [1, 2, 5, 10, 20, 30, 60, 120, 240, 360, 720, 1440]

/** Chooses a width that gives about 120 points. */
export const defaultWidth = ({ from, to }: Range): Duration.Duration => {
  const wanted = (to - from) / 120 / minute
  return Duration.minutes(chartMinutes.find((minutes) => minutes >= wanted) ?? Math.ceil(wanted / 1440) * 1440)
}

/** Rounds a range out to stored buckets, as few as possible without widening it much. */
export const outline = ({ from, to }: Range): Range & { readonly grain: Grain } => {
  const hours = (to - from) / (60 * minute)
  const grain = hours > 72 ? 60 : hours > 6 ? 10 : 1
  const length = grain * minute
  return { from: Math.floor(from / length) * length, to: Math.ceil(to / length) * length, grain }
}

/** Returns a value for each bucket, in order, with `absent` for missing ones. */
export const fill = <A>(grid: Grid, found: ReadonlyMap<number, A>, absent: (at: number) => A): ReadonlyArray<A> =>
  Array.from({ length: grid.points }, (_, index) => {
    const at = grid.from + index * grid.width
    return found.get(at) ?? absent(at)
  })

import { Duration, Either, Schema } from "effect"
import { type Grain, grains } from "../telemetry/BucketCount.js"

/** How many points a chart may ask for at once. */
export const mostPoints = 1_500

/** More points than anybody can look at, and than the database should be asked for. */
export class TooManyPoints extends Schema.TaggedError<TooManyPoints>()("TooManyPoints", {
  points: Schema.Number,
  /** The narrowest bucket that fits, in seconds. */
  narrowest: Schema.Number
}) {
  override get message(): string {
    return `The range has ${this.points} buckets, and ${mostPoints} are the most. Ask for buckets of ${this.narrowest} seconds or more, or for a shorter range.`
  }
}

/** A range of time. Epoch milliseconds; the end is not part of it. */
export interface Range {
  readonly from: number
  readonly to: number
}

/** A range cut into equal buckets, which begin at multiples of their width whoever asks. */
export interface Grid extends Range {
  readonly width: number
  readonly points: number
  /** The widest of the kept buckets that these can be made of. */
  readonly grain: Grain
}

const minute = 60_000

/** Buckets are whole minutes, at least one: nothing finer is kept. */
const wholeMinutes = (millis: number) => Math.max(1, Math.ceil(millis / minute)) * minute

const grainOf = (width: number): Grain => grains.findLast((grain) => width % (grain * minute) === 0) ?? 1

/** The buckets that hold a range whole. */
export const of = ({ from, to }: Range, width: Duration.Duration): Either.Either<Grid, TooManyPoints> => {
  const step = wholeMinutes(Duration.toMillis(width))
  const first = Math.floor(from / step) * step
  const end = Math.max(first + step, Math.ceil(to / step) * step)
  const points = (end - first) / step
  return points <= mostPoints
    ? Either.right({ from: first, to: end, width: step, points, grain: grainOf(step) })
    : Either.left(new TooManyPoints({ points, narrowest: narrowest({ from, to }) / 1000 }))
}

/** One bucket less than allowed, because a range that begins in the middle of one touches one more. */
const narrowest = ({ from, to }: Range) => wholeMinutes((to - from) / (mostPoints - 1))

/** Widths of which charts are made, in minutes: from ten minutes on, wider buckets are kept that they can be read from. */
const usualMinutes = [1, 2, 5, 10, 20, 30, 60, 120, 240, 360, 720, 1440]

/** A width that gives a chart enough points and not too many. */
export const usualWidth = ({ from, to }: Range): Duration.Duration => {
  const wanted = (to - from) / 120 / minute
  return Duration.minutes(usualMinutes.find((minutes) => minutes >= wanted) ?? Math.ceil(wanted / 1440) * 1440)
}

/** A whole range in as few kept buckets as do not widen it by much. */
export const outline = ({ from, to }: Range): Range & { readonly grain: Grain } => {
  const hours = (to - from) / (60 * minute)
  const grain = hours > 72 ? 60 : hours > 6 ? 10 : 1
  const length = grain * minute
  return { from: Math.floor(from / length) * length, to: Math.ceil(to / length) * length, grain }
}

/** A value for each bucket, in order; what is absent is filled in. */
export const fill = <A>(grid: Grid, found: ReadonlyMap<number, A>, absent: (at: number) => A): ReadonlyArray<A> =>
  Array.from({ length: grid.points }, (_, index) => {
    const at = grid.from + index * grid.width
    return found.get(at) ?? absent(at)
  })

import { Either } from "effect"
import * as Calendar from "./Calendar.js"
import * as CronText from "./CronText.js"
import * as Memoize from "./Memoize.js"
import * as TimeZone from "./TimeZone.js"

// When an expression fires is a set of instants, the same for every caller. Clock changes are handled as Vixie cron
// does. An interval (`*` or a step in minute or hour) fires whenever the clocks show a matching time: twice where they show it
// twice, not at all where they skip it. Times of day fire once: at their first occurrence where the clocks show them twice,
// and as much later as the clocks were set where they skip them.
//
// Between two settings of the clocks local time is UTC and a constant, so the search goes from stretch to stretch.

/** A cron expression in its zone. Instants are epoch milliseconds, on whole seconds. */
export interface Expression {
  /** The first time it fires after an instant. */
  readonly next: (after: number) => number
  /** The next times it fires after an instant. */
  readonly preview: (after: number, count: number) => ReadonlyArray<number>
  /** The last times it fires in a span of which both ends count: oldest first, `count` at most. */
  readonly last: (from: number, to: number, count: number) => ReadonlyArray<number>
}

const second = 1_000
const day = 86_400_000

/** Clocks are set by a day at most (once, in Samoa): what happened longer ago has no part in what they show. */
const mostShift = day + 3_600_000

const never = new CronText.InvalidExpression({ part: "expression", reason: "names no date that comes to pass" })

const compile = (
  fields: CronText.CronFields,
  zone: TimeZone.TimeZone
): Either.Either<Expression, CronText.InvalidExpression> => {
  const firstMatch = Calendar.make(fields)
  if (firstMatch(0) === undefined) return Either.left(never)
  const { isInterval } = fields
  const match = (local: number) => firstMatch(local) ?? Number.POSITIVE_INFINITY

  /** The first instant of this stretch, from here on, that fires; it may lie beyond the stretch's end. */
  const inStretch = (from: number): number => {
    const offset = zone.offsetAt(from)
    const change = zone.changeBetween(from - mostShift, from)
    if (isInterval || change === undefined || change.before === offset) return match(from + offset) - offset
    // Set back: what the clocks showed before is shown again.
    if (change.before > offset) {
      return match(Math.max(from + offset, change.at + change.before)) - offset
    }
    // Set forward: what they skipped is made up for.
    const skipped = match(from + change.before)
    const real = match(from + offset) - offset
    return skipped < change.at + offset ? Math.min(skipped - change.before, real) : real
  }

  const next = (after: number): number => {
    let from = after + 1
    for (;;) {
      const candidate = inStretch(from)
      // Nothing matches on the way, so the clocks need only be watched from shortly before.
      if (candidate - from > 4 * mostShift) {
        from = candidate - 2 * mostShift
        continue
      }
      const change = zone.changeBetween(from, candidate)
      if (change === undefined) return candidate
      from = change.at
    }
  }

  const preview = (after: number, count: number) => {
    const ticks: Array<number> = []
    for (let at = next(after); ticks.length < count; at = next(at)) ticks.push(at)
    return ticks
  }

  /** The last instant in [from, before) that fires. Reaches back in growing steps, then halves what it does not know. */
  const previous = (from: number, before: number, reach: number): number | undefined => {
    let start = Math.max(from, before - reach)
    let found = next(start - 1)
    for (let step = reach; found >= before; step *= 4) {
      if (start === from) return undefined
      start = Math.max(from, before - step)
      found = next(start - 1)
    }
    let unknown = before
    while (unknown - found > second) {
      const middle = Math.floor((found + unknown) / 2)
      const later = next(middle - 1)
      if (later < before) found = later
      else unknown = middle
    }
    return found
  }

  const last = (from: number, to: number, count: number) => {
    const ticks: Array<number> = []
    let before = to + 1
    let reach = 60 * second
    while (ticks.length < count) {
      const tick = previous(from, before, reach)
      if (tick === undefined) break
      ticks.push(tick)
      reach = Math.max(second, before - tick)
      before = tick
    }
    return ticks.reverse()
  }

  return Either.right({ next, preview, last })
}

const read = (cron: string, timezone: string): Either.Either<Expression, CronText.InvalidExpression> =>
  Either.flatMap(CronText.parse(cron), (fields) =>
    Either.flatMap(TimeZone.parse(timezone), (zone) => compile(fields, zone))
  )

/** Reads an expression and its zone, or says what is wrong with them. What is read fires again and again, for ever. */
export const parse = Memoize.make(500, read)

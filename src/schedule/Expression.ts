import { Either } from "effect"
import * as Calendar from "./Calendar.js"
import * as CronText from "./CronText.js"
import * as TimeZone from "./TimeZone.js"

/** Memoizes a function of an expression and its zone. Keeps up to `most` successful results. */
export const memoized = <A, E>(
  most: number,
  read: (cron: string, timezone: string) => Either.Either<A, E>
): ((cron: string, timezone: string) => Either.Either<A, E>) => {
  const known = new Map<string, Either.Either<A, E>>()
  return (cron, timezone) => {
    const key = `${timezone} ${cron}`
    const found = known.get(key)
    if (found !== undefined) return found
    const answer = read(cron, timezone)
    if (Either.isRight(answer)) {
      if (known.size >= most) known.clear()
      known.set(key, answer)
    }
    return answer
  }
}

// Clock changes follow Vixie cron. An interval (`*` or a step in minute or hour) fires whenever the local time matches:
// twice if the clock is set back and shows the time twice, never if the clock skips it. A time of day fires once: at
// the first occurrence if the time is repeated, and after the change if it is skipped, delayed by the amount that the
// clock was set forward.
//
// Between two clock changes the UTC offset is constant, so the search proceeds from one such period to the next.

/** A cron expression in its time zone. Instants are epoch milliseconds, on whole seconds. */
export interface Expression {
  /** Returns the first fire time after an instant. */
  readonly next: (after: number) => number
  /** Returns the next `count` fire times after an instant. */
  readonly preview: (after: number, count: number) => ReadonlyArray<number>
  /** Returns the last fire times from `from` to `to`, both inclusive: at most `count`, oldest first. */
  readonly last: (from: number, to: number, count: number) => ReadonlyArray<number>
}

const second = 1_000
const day = 86_400_000

/** The largest clock change is one day (Samoa, 2011). Earlier changes do not affect the local time. */
const maxClockChange = day + 3_600_000

const never = new CronText.InvalidExpression({ part: "expression", reason: "would never fire: no date matches it" })

const compile = (
  fields: CronText.CronFields,
  zone: TimeZone.TimeZone
): Either.Either<Expression, CronText.InvalidExpression> => {
  const firstMatch = Calendar.make(fields)
  if (firstMatch(0) === undefined) return Either.left(never)
  const { isInterval } = fields
  const match = (local: number) => firstMatch(local) ?? Number.POSITIVE_INFINITY

  /**
   * Returns the first fire time at or after `from`, assuming no further clock change. The caller checks that
   * assumption.
   */
  const inStretch = (from: number): number => {
    const offset = zone.offsetAt(from)
    const change = zone.changeBetween(from - maxClockChange, from)
    if (isInterval || change === undefined || change.before === offset) return match(from + offset) - offset
    // Set back: skip the local times that are repeated.
    if (change.before > offset) {
      return match(Math.max(from + offset, change.at + change.before)) - offset
    }
    // Set forward: fire the local times that were skipped.
    const skipped = match(from + change.before)
    const real = match(from + offset) - offset
    return skipped < change.at + offset ? Math.min(skipped - change.before, real) : real
  }

  const next = (after: number): number => {
    let from = after + 1
    for (;;) {
      const candidate = inStretch(from)
      // Nothing matches before the candidate, so only clock changes shortly before it matter.
      if (candidate - from > 4 * maxClockChange) {
        from = candidate - 2 * maxClockChange
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

  /** Returns the last fire time in [from, before). Searches backwards in growing steps, then bisects. */
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

/**
 * Parses an expression and its time zone, or returns why they are invalid. A parsed expression always has a next fire
 * time.
 */
export const parse = memoized(500, read)

import { Either } from "effect"
import { InvalidExpression } from "./CronText.js"

/** When the UTC offset of a zone changed, and the offset before, in milliseconds. */
export interface ClockChange {
  readonly at: number
  readonly before: number
}

export interface TimeZone {
  /** Returns the UTC offset at an instant, in milliseconds. */
  readonly offsetAt: (instant: number) => number
  /** Returns the first clock change later than `after` and not later than `upTo`. */
  readonly changeBetween: (after: number, upTo: number) => ClockChange | undefined
}

const name = /^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/
const day = 86_400_000

const make = (format: Intl.DateTimeFormat): TimeZone => {
  const ask = (instant: number): number => {
    const parts: Record<string, number> = {}
    for (const { type, value } of format.formatToParts(instant)) parts[type] = Number(value)
    const { day = 1, hour = 0, minute = 0, month = 1, second = 0, year = 1970 } = parts
    return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(instant / 1_000) * 1_000
  }

  // Caches the last period without a clock change, because `Intl` is slow and most lookups are close to each other.
  let steady = { from: 0, to: 0, offset: ask(0) }
  const isSteady = (from: number, to: number) => steady.from <= from && to <= steady.to

  const offsetAt = (instant: number): number => (isSteady(instant, instant) ? steady.offset : ask(instant))

  const remember = (from: number, to: number, offset: number) => {
    const adjoins = offset === steady.offset && from <= steady.to && to >= steady.from
    steady = adjoins ? { from: Math.min(from, steady.from), to: Math.max(to, steady.to), offset } : { from, to, offset }
  }

  /** Finds the second in which the clock changed. */
  const bisect = (after: number, upTo: number, before: number): ClockChange => {
    let [low, high] = [Math.floor(after / 1_000), Math.ceil(upTo / 1_000)]
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2)
      if (ask(middle * 1_000) === before) low = middle
      else high = middle
    }
    return { at: high * 1_000, before }
  }

  const changeBetween = (after: number, upTo: number): ClockChange | undefined => {
    for (let from = after; from < upTo; from += day) {
      if (isSteady(from, Math.min(from + day, upTo))) continue
      // No zone changes its clock twice within a day.
      const offset = offsetAt(from)
      if (offset === ask(from + day)) {
        remember(from, from + day, offset)
        continue
      }
      const change = bisect(from, from + day, offset)
      if (change.at <= upTo) return change
    }
    return undefined
  }

  return { offsetAt, changeBetween }
}

/** Returns the time zone of an IANA name, from the time zone data of the runtime. */
export const parse = (text: string): Either.Either<TimeZone, InvalidExpression> =>
  Either.mapBoth(name.test(text) ? Either.try(() => formatOf(text)) : Either.left(undefined), {
    onLeft: () =>
      new InvalidExpression({
        part: "timezone",
        reason: `must be an IANA time zone name like UTC or Europe/Paris, got ${JSON.stringify(text.slice(0, 40))}`
      }),
    onRight: make
  })

const formatOf = (timeZone: string) =>
  new Intl.DateTimeFormat("en-US", {
    timeZone,
    calendar: "iso8601",
    numberingSystem: "latn",
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric"
  })

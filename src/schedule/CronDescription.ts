import { Either } from "effect"
import * as CronText from "./CronText.js"
import * as DayDescription from "./DayDescription.js"
import { listed, type Values, valuesOf, within } from "./Enumeration.js"
import * as Memoize from "./Memoize.js"
import * as TimeZone from "./TimeZone.js"

// Describes an expression by the times it matches, not by its syntax: `*/15` and `0,15,30,45` get the same text. Evenly
// spaced times are described by their interval, a few times are listed, and everything else is described field by
// field. Expressions that match different times always get different texts.

interface Clock {
  readonly seconds: Values
  readonly minutes: Values
  readonly hours: Values
}

/** Evenly spaced times of day, in seconds. */
interface Rhythm {
  readonly step: number
  readonly count: number
  readonly first: number
  readonly last: number
}

const day = 86_400

/**
 * Up to `mostListed` times are listed. Fewer than `leastRhythm` times are not described by an interval: 09:00 and 17:00
 * is not "every 8 hours".
 */
const mostListed = 6
const leastRhythm = 4

const two = (value: number) => String(value).padStart(2, "0")

const timeText = ({ seconds }: Clock, time: number): string => {
  const [hour, minute, second] = [Math.floor(time / 3_600), Math.floor(time / 60) % 60, time % 60]
  const withSeconds = seconds.all.length > 1 || seconds.first !== 0
  return `${two(hour)}:${two(minute)}${withSeconds ? `:${two(second)}` : ""}`
}

const firstTime = ({ hours, minutes, seconds }: Clock) => hours.first * 3_600 + minutes.first * 60 + seconds.first
const lastTime = ({ hours, minutes, seconds }: Clock) => hours.last * 3_600 + minutes.last * 60 + seconds.last
const countOf = ({ hours, minutes, seconds }: Clock) => hours.all.length * minutes.all.length * seconds.all.length

/**
 * Returns the interval if the times are evenly spaced and there are enough of them. `finest` is the finest field with
 * several values. Each field above it must have a single value, or consecutive values that continue the interval of the
 * fields below.
 */
const rhythmOf = (clock: Clock): Rhythm | undefined => {
  const fields = [
    { values: clock.seconds, unit: 1 },
    { values: clock.minutes, unit: 60 },
    { values: clock.hours, unit: 3_600 }
  ]
  const [finest, ...above] = fields.slice(fields.findIndex(({ values }) => values.all.length > 1))
  if (finest?.values.step === undefined) return undefined
  let goesOn = finest.values.isRound
  for (const { values } of above) {
    if (values.all.length > 1 && !(goesOn && values.step === 1)) return undefined
    goesOn = goesOn && values.isRound
  }
  const count = countOf(clock)
  if (count < leastRhythm) return undefined
  return { step: finest.values.step * finest.unit, count, first: firstTime(clock), last: lastTime(clock) }
}

const units = [
  [3_600, "hour"],
  [60, "minute"],
  [1, "second"]
] as const

const amount = (count: number, unit: string) => `${count} ${unit}${count === 1 ? "" : "s"}`

const every = (step: number): string => {
  const [size, unit] = units.find(([size]) => step % size === 0) ?? units[2]
  return step === size ? `every ${unit}` : `every ${amount(step / size, unit)}`
}

/** Whether the interval continues across midnight without a gap. */
const isEndless = ({ count, first, step }: Rhythm) => first < step && count * step === day

const fieldByField = ({ hours, minutes, seconds }: Clock): string => {
  const isOnTheMinute = seconds.all.length === 1 && seconds.first === 0
  const parts = [
    ...(isOnTheMinute ? [] : [within(seconds, "second")]),
    within(minutes, "minute"),
    ...(minutes.isEvery && hours.isEvery ? [] : [within(hours, "hour")])
  ].join(" of ")
  return parts.startsWith("every ") ? parts : `at ${parts}`
}

const rhythmText = (clock: Clock, rhythm: Rhythm): string => {
  const { first, last, step } = rhythm
  if (isEndless(rhythm)) {
    if (first === 0) return every(step)
    if (step === 60) return `at ${amount(first, "second")} past every minute`
    if (step === 3_600 && first % 60 === 0) return `at ${amount(first / 60, "minute")} past every hour`
    // Every hour is the same, so the first and last time of the day would be misleading.
    if (step <= 3_600) return fieldByField(clock)
  }
  return `${every(step)} from ${timeText(clock, first)} to ${timeText(clock, last)}`
}

const timesOf = ({ hours, minutes, seconds }: Clock): ReadonlyArray<number> =>
  hours.all.flatMap((hour) =>
    minutes.all.flatMap((minute) => seconds.all.map((second) => hour * 3_600 + minute * 60 + second))
  )

const timeWords = (clock: Clock, rhythm: Rhythm | undefined): string => {
  const count = countOf(clock)
  if (rhythm !== undefined) return rhythmText(clock, rhythm)
  if (count > mostListed) return fieldByField(clock)
  return `at ${listed(timesOf(clock).map((time) => timeText(clock, time)))}`
}

/**
 * UTC offsets are multiples of 15 minutes, so an expression whose interval divides 15 minutes fires at the same
 * instants in every zone.
 */
const quarter = 900

/** Describes the fields, with the zone unless it makes no difference: `at 09:30 on weekdays, Europe/Berlin`. */
const inZone = (fields: CronText.CronFields, timezone: string): string => {
  const clock: Clock = {
    seconds: valuesOf(fields.second, 0, 60),
    minutes: valuesOf(fields.minute, 0, 60),
    hours: valuesOf(fields.hour, 0, 24)
  }
  const rhythm = rhythmOf(clock)
  const times = timeWords(clock, rhythm)
  const days = DayDescription.ofFields(fields)
  const isEndlessly = rhythm !== undefined && isEndless(rhythm)
  if (days !== undefined) return `${times} ${days}, ${timezone}`
  if (isEndlessly && quarter % rhythm.step === 0) return times
  return `${times}${isEndlessly || clock.hours.isEvery ? "" : " every day"}, ${timezone}`
}

const read = (cron: string, timezone: string): Either.Either<string, CronText.InvalidExpression> =>
  Either.flatMap(CronText.parse(cron), (fields) => Either.map(TimeZone.parse(timezone), () => inZone(fields, timezone)))

/**
 * Describes an expression in English, or returns why it is invalid. Memoized: Mission Control requests the list every
 * few seconds, and describing a thousand schedules takes about half a second.
 */
export const of = Memoize.make(5_000, read)

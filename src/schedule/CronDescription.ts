import { Either } from "effect"
import type { CronFields } from "./CronText.js"
import * as CronText from "./CronText.js"
import { memoized } from "./Expression.js"
import * as TimeZone from "./TimeZone.js"

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
const valuesOf = (matching: ReadonlySet<number>, least: number, size: number): Values => {
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
const listed = (texts: ReadonlyArray<string>): string =>
  texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`

/** Lists values, with three or more consecutive ones as a range: `1, 3 to 5 and 9`. */
const runs = (values: ReadonlyArray<number>, name: (value: number) => string = String): string => {
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
const ordinal = (value: number): string =>
  `${value}${Math.floor(value / 10) % 10 === 1 ? "th" : (endings[value % 10] ?? "th")}`

/** Minimum number of evenly spaced values to describe by their distance. */
const minEvenValues = 4

/** Returns the distance if the values should be described by it. */
const spacedBy = ({ all, step }: Values): number | undefined =>
  step !== undefined && step > 1 && all.length >= minEvenValues ? step : undefined

/** Describes the values of one field: `minutes 5 and 20`, `every 7th minute from 0 to 56`. */
const within = (values: Values, unit: string): string => {
  const { all, first, isEvery, last } = values
  const step = spacedBy(values)
  if (isEvery) return `every ${unit}`
  if (step !== undefined) return `every ${ordinal(step)} ${unit} from ${first} to ${last}`
  return `${unit}${all.length === 1 ? "" : "s"} ${runs(all)}`
}

const monthNames = "January February March April May June July August September October November December".split(" ")
const dayNames = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]

const monthName = (month: number) => monthNames[month - 1] ?? String(month)
const dayName = (day: number) => dayNames[day % 7] ?? String(day)

/** Describes three or more consecutive values as a range. */
const stretch = ({ all, first, last, step }: Values, name: (value: number) => string): string | undefined =>
  step === 1 && all.length > 2 ? `from ${name(first)} to ${name(last)}` : undefined

/** Numbers Sunday as 7, so that Saturday and Sunday are adjacent. */
const weekWords = (fields: CronFields): string => {
  const days = valuesOf(new Set([...fields.dayOfWeek].map((day) => (day === 0 ? 7 : day))), 1, 7)
  const key = days.all.join("")
  if (key === "12345") return "on weekdays"
  if (key === "67") return "on weekends"
  return stretch(days, dayName) ?? `on ${listed(days.all.map((day) => `${dayName(day)}s`))}`
}

const monthDays = (fields: CronFields): string => {
  const days = valuesOf(fields.dayOfMonth, 1, 31)
  const { first, last } = days
  const step = spacedBy(days)
  const numbered =
    step === undefined
      ? runs(days.all, ordinal)
      : `every ${ordinal(step)} day from the ${ordinal(first)} to the ${ordinal(last)}`
  const named = days.all.length === 0 ? [] : [step === undefined ? `the ${numbered}` : numbered]
  return listed([...named, ...(fields.lastDayOfMonth ? ["the last day"] : [])])
}

/** Describes the matching days; undefined if every day matches. */
const daysOf = (fields: CronFields): string | undefined => {
  const months = valuesOf(fields.month, 1, 12)
  const span = stretch(months, monthName)
  const named = listed(months.all.map(monthName))
  const inMonths = months.isEvery ? "" : ` ${span ?? `in ${named}`}`
  const ofMonths = months.isEvery ? "of every month" : span === undefined ? `of ${named}` : `of every month ${span}`
  const isEveryWeekday = fields.dayOfWeek.size === 7
  const isEveryMonthDay = valuesOf(fields.dayOfMonth, 1, 31).isEvery
  const week = `${weekWords(fields)}${inMonths}`
  const month = `on ${monthDays(fields)} ${ofMonths}`
  const isEvery = months.isEvery ? undefined : `every day${inMonths}`
  switch (fields.days) {
    case "any":
      return isEvery
    case "ofWeek":
      return isEveryWeekday ? isEvery : week
    case "ofMonth":
      return isEveryMonthDay ? isEvery : month
    case "either":
      return isEveryWeekday || isEveryMonthDay ? isEvery : `${month} and ${week}`
  }
}

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
 * Up to `maxListedValues` times are listed. Fewer than `minRhythmValues` times are not described by an interval: 09:00 and 17:00
 * is not "every 8 hours".
 */
const maxListedValues = 6
const minRhythmValues = 4

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
  let isContinuous = finest.values.isRound
  for (const { values } of above) {
    if (values.all.length > 1 && !(isContinuous && values.step === 1)) return undefined
    isContinuous = isContinuous && values.isRound
  }
  const count = countOf(clock)
  if (count < minRhythmValues) return undefined
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
  if (count > maxListedValues) return fieldByField(clock)
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
  const days = daysOf(fields)
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
export const of = memoized(5_000, read)

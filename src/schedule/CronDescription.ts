import { Either } from "effect"
import * as CronText from "./CronText.js"
import * as DayDescription from "./DayDescription.js"
import { listed, type Values, valuesOf, within } from "./Enumeration.js"
import * as Memoize from "./Memoize.js"
import * as TimeZone from "./TimeZone.js"

// Words are made from what an expression matches and not from how it is written: `*/15` and `0,15,30,45` are the same to a
// reader. Times of day that follow each other at one distance are said as that distance; a few are listed; what is left is
// said field by field. Different times never have the same words.

interface Clock {
  readonly seconds: Values
  readonly minutes: Values
  readonly hours: Values
}

/** Times of day at one distance from each other, all in seconds. */
interface Rhythm {
  readonly step: number
  readonly count: number
  readonly first: number
  readonly last: number
}

const day = 86_400

/** So many times of day are listed, and so few at one distance: at 09:00 and 17:00 is not every eight hours. */
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
 * The distance, where there is one and enough times to tell. What is finer than the finest field of several values does not matter; each field above
 * it either has one value, or goes on where a round of those below it ended.
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

/** Whether it goes on into the next day as if there were none. */
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
    // Every hour is the same: the times of the first and the last would say less.
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

/** Clocks differ by whole quarters of an hour: what fires at all of these fires at the same instants everywhere. */
const quarter = 900

/** What the fields match, and in whose time unless that does not matter: `at 09:30 on weekdays, Europe/Berlin`. */
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
 * An expression in English, or what is wrong with it. Whatever can fire has words. A page of schedules is asked for every few
 * seconds, and to read a thousand takes half of one: they are remembered.
 */
export const of = Memoize.make(5_000, read)

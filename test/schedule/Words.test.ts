import { describe, expect, it } from "@effect/vitest"
import { Either, FastCheck as fc } from "effect"
import * as CronDescription from "../../src/schedule/CronDescription.js"
import * as CronText from "../../src/schedule/CronText.js"
import { scale } from "../support/Scale.js"

const words = (cron: string, timezone = "UTC") => Either.getOrThrow(CronDescription.of(cron, timezone))

const inUtc: Readonly<Record<string, string>> = {
  "* * * * *": "every minute",
  "* * * * * *": "every second",
  "@minutely": "every minute",
  "@secondly": "every second",
  "*/10 * * * * *": "every 10 seconds",
  "30 * * * * *": "at 30 seconds past every minute",
  "5/20 * * * * *": "at seconds 5, 25 and 45 of every minute",
  "*/7 * * * * *": "every 7th second from 0 to 56 of every minute, UTC",
  "*/15 * * * *": "every 15 minutes",
  "0,15,30,45 * * * *": "every 15 minutes",
  "*/1 * * * *": "every minute",
  "*/20 * * * *": "every 20 minutes, UTC",
  "5-59/15 * * * *": "every 15th minute from 5 to 50 of every hour",
  "*/7 * * * *": "every 7th minute from 0 to 56 of every hour, UTC",
  "0-29 * * * *": "at minutes 0 to 29 of every hour, UTC",
  "0,5,17 * * * *": "at minutes 0, 5 and 17 of every hour, UTC",
  "1,2,8-11 * * * *": "at minutes 1, 2 and 8 to 11 of every hour, UTC",
  "@hourly": "every hour, UTC",
  "1 * * * *": "at 1 minute past every hour, UTC",
  "15 * * * *": "at 15 minutes past every hour, UTC",
  "30 0 * * * *": "at second 30 of minute 0 of every hour, UTC",
  "0 */2 * * *": "every 2 hours, UTC",
  "30 */2 * * *": "every 2 hours from 00:30 to 22:30, UTC",
  "0 */5 * * *": "every 5 hours from 00:00 to 20:00 every day, UTC",
  "0 9-17 * * *": "every hour from 09:00 to 17:00 every day, UTC",
  "* 9-17 * * *": "every minute from 09:00 to 17:59 every day, UTC",
  "*/15 9-17 * * 1-5": "every 15 minutes from 09:00 to 17:45 on weekdays, UTC",
  "*/10 * 9 * * *": "every 10 seconds from 09:00:00 to 09:59:50 every day, UTC",
  "10-20 0 0 * * *": "every second from 00:00:10 to 00:00:20 every day, UTC",
  "15,45 10 9 * * *": "at 09:10:15 and 09:10:45 every day, UTC",
  "0 1,3,5-9,13,22 * * *": "at minute 0 of hours 1, 3, 5 to 9, 13 and 22 every day, UTC",
  "0,5,17 8-10 * * *": "at minutes 0, 5 and 17 of hours 8 to 10 every day, UTC",
  "0 9 * * *": "at 09:00 every day, UTC",
  "0 9,17 * * *": "at 09:00 and 17:00 every day, UTC",
  "0 0,12 * * *": "at 00:00 and 12:00 every day, UTC",
  "0 6,12,18 * * *": "at 06:00, 12:00 and 18:00 every day, UTC",
  "@daily": "at 00:00 every day, UTC",
  "@midnight": "at 00:00 every day, UTC",
  "@weekdays": "at 00:00 on weekdays, UTC",
  "@weekends": "at 00:00 on weekends, UTC",
  "@weekly": "at 00:00 on Sundays, UTC",
  "0 0 * * 7": "at 00:00 on Sundays, UTC",
  "0 0 * * MON,wed,Fri": "at 00:00 on Mondays, Wednesdays and Fridays, UTC",
  "0 0 * * 1-4": "at 00:00 from Monday to Thursday, UTC",
  "0 0 * * 5-7": "at 00:00 from Friday to Sunday, UTC",
  "0 22 * * 6,0,1": "at 22:00 on Mondays, Saturdays and Sundays, UTC",
  "0 0 * * 0-6": "at 00:00 every day, UTC",
  "*/30 * * * 1": "every 30 minutes on Mondays, UTC",
  "@monthly": "at 00:00 on the 1st of every month, UTC",
  "0 0 L * *": "at 00:00 on the last day of every month, UTC",
  "0 0 15,L * *": "at 00:00 on the 15th and the last day of every month, UTC",
  "0 0 2,3,11-13,21-23 * *": "at 00:00 on the 2nd, 3rd, 11th to 13th and 21st to 23rd of every month, UTC",
  "0 0 */2 * *": "at 00:00 on every 2nd day from the 1st to the 31st of every month, UTC",
  "0 0 1,2 1,7 *": "at 00:00 on the 1st and 2nd of January and July, UTC",
  "0 0 1 MAR-MAY *": "at 00:00 on the 1st of every month from March to May, UTC",
  "0 0 29 2 *": "at 00:00 on the 29th of February, UTC",
  "@yearly": "at 00:00 on the 1st of January, UTC",
  "@annually": "at 00:00 on the 1st of January, UTC",
  "0 12 * 3-5 *": "at 12:00 every day from March to May, UTC",
  "0 12 * 6,12 1": "at 12:00 on Mondays in June and December, UTC",
  "0 0 13 * 5": "at 00:00 on the 13th of every month and on Fridays, UTC",
  "0 0 13 1 5": "at 00:00 on the 13th of January and on Fridays in January, UTC",
  "0 0 1-7 * 1": "at 00:00 on the 1st to 7th of every month and on Mondays, UTC",
  "0 0 1-31 * 1": "at 00:00 every day, UTC"
}

const value = (least: number, most: number) => fc.integer({ min: least, max: most })

/** A typical field: all, a value, a range, steps, and lists of those. */
const field = (least: number, most: number, maxStep: number, ...odd: ReadonlyArray<string>) => {
  const range = fc.tuple(value(least, most), value(least, most)).map((ends) => ends.toSorted((a, b) => a - b))
  const step = value(1, maxStep)
  const element = fc.oneof(
    value(least, most).map(String),
    range.map(([from, to]) => `${from}-${to}`),
    fc.tuple(range, step).map(([[from, to], by]) => `${from}-${to}/${by}`),
    ...odd.map((text) => fc.constant(text))
  )
  return fc.oneof(
    { weight: 2, arbitrary: fc.constant("*") },
    step.map((by) => `*/${by}`),
    { weight: 4, arbitrary: fc.array(element, { minLength: 1, maxLength: 3 }).map((elements) => elements.join(",")) }
  )
}

const expression = fc
  .tuple(
    fc.oneof({ weight: 3, arbitrary: fc.constant("0") }, field(0, 59, 59)),
    field(0, 59, 59),
    field(0, 23, 23),
    field(1, 31, 30, "L"),
    field(1, 12, 11),
    field(0, 7, 6)
  )
  .map((fields) => fields.join(" "))

/** The meaning of an expression: its times, and for every type of day whether it matches. */
const meaning = ({ dayOfMonth, dayOfWeek, days, hour, lastDayOfMonth, minute, month, second }: CronText.CronFields) => {
  const numbers = (values: ReadonlySet<number>) => [...values].sort((a, b) => a - b)
  const kinds = [...Array(31).keys(), 31].flatMap((index) =>
    [0, 1, 2, 3, 4, 5, 6].map((weekday) => {
      // The last index is the last day of the month, not named by its number.
      const ofMonth = index === 31 ? lastDayOfMonth : dayOfMonth.has(index + 1)
      const ofWeek = dayOfWeek.has(weekday)
      return { any: true, ofMonth, ofWeek, either: ofMonth || ofWeek }[days] ? 1 : 0
    })
  )
  // If all days of the month match, so does the last.
  if (dayOfMonth.size === 31 && days !== "ofWeek") kinds.fill(1)
  return JSON.stringify([numbers(second), numbers(minute), numbers(hour), numbers(month), kinds.join("")])
}

describe("an expression in words", () => {
  it.each(Object.entries(inUtc))("%s is %s", (cron, expected) => {
    expect(words(cron)).toBe(expected)
  })

  it("names the time zone when it matters", () => {
    expect(words("30 9 * * 1-5", "Europe/Berlin")).toBe("at 09:30 on weekdays, Europe/Berlin")
    expect(words("*/5 * * * *", "Asia/Kolkata")).toBe("every 5 minutes")
    expect(words("0 * * * *", "Asia/Kolkata")).toBe("every hour, Asia/Kolkata")
  })

  it("has none when it cannot be parsed", () => {
    for (const cron of ["", "nonsense", "61 * * * *", "0 0 30 2 *"])
      expect(Either.isLeft(CronDescription.of(cron, "UTC"))).toBe(true)
    expect(Either.isLeft(CronDescription.of("@daily", "Mars/Olympus"))).toBe(true)
  })

  it("has words for every valid expression, and the same words only for the same times", () => {
    const runs = scale("EXPRESSIONS", { usual: 200, long: 1_000 })
    const meaningOf = new Map<string, string>()
    fc.assert(
      fc.property(expression, (cron) => {
        const fields = CronText.parse(cron)
        const said = CronDescription.of(cron, "UTC")
        expect(Either.isRight(said)).toBe(Either.isRight(fields))
        if (Either.isLeft(fields) || Either.isLeft(said)) return
        expect(said.right).toMatch(/^(at|every) [A-Za-z0-9 :,]+$/)
        expect(said.right).not.toMatch(/undefined|NaN| {2}/)
        const means = meaning(fields.right)
        expect([cron, meaningOf.get(said.right) ?? means]).toEqual([cron, means])
        meaningOf.set(said.right, means)
      }),
      { numRuns: runs }
    )
    expect(meaningOf.size).toBeGreaterThan(0.3 * runs)
  })
})

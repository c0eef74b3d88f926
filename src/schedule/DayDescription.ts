import type { CronFields } from "./CronText.js"
import { listed, ordinal, runs, spacedBy, type Values, valuesOf } from "./Enumeration.js"

const monthNames = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December"
]
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
export const ofFields = (fields: CronFields): string | undefined => {
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

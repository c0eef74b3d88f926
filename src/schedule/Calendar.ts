import type { CronFields } from "./CronText.js"

// Calendar arithmetic without time zones. A local time is represented as the epoch milliseconds that it would have in
// UTC, so every day has 24 hours. Expression.ts handles clock changes.

const daySeconds = 86_400

/** More days than can lie between two matches: two leap days can be eight years apart. */
const maxDays = 4_000

const lastDayOf = (year: number, month: number) => new Date(Date.UTC(year, month + 1, 0)).getUTCDate()

const dayMatches = (fields: CronFields, date: Date): boolean => {
  if (fields.days === "any") return true
  const day = date.getUTCDate()
  const ofMonth =
    fields.dayOfMonth.has(day) ||
    (fields.lastDayOfMonth && day === lastDayOf(date.getUTCFullYear(), date.getUTCMonth()))
  if (fields.days === "ofMonth") return ofMonth
  const ofWeek = fields.dayOfWeek.has(date.getUTCDay())
  return fields.days === "ofWeek" ? ofWeek : ofMonth || ofWeek
}

const from = (sorted: ReadonlyArray<number>, least: number) => sorted.find((value) => value >= least)

/** Returns a function that finds the first matching local time at or after the given one. */
export const make = (fields: CronFields): ((local: number) => number | undefined) => {
  const sorted = (values: ReadonlySet<number>) => [...values].sort((a, b) => a - b)
  const hours = sorted(fields.hour)
  const minutes = sorted(fields.minute)
  const seconds = sorted(fields.second)

  /** Returns the first matching second of the day at or after `least`. */
  const timeOfDay = (least: number): number | undefined => {
    for (const hour of hours) {
      if (hour * 3_600 + 3_599 < least) continue
      for (const minute of minutes) {
        const base = hour * 3_600 + minute * 60
        const second = base + 59 < least ? undefined : from(seconds, least - base)
        if (second !== undefined) return base + second
      }
    }
    return undefined
  }

  return (local) => {
    let at = Math.ceil(local / 1_000) * 1_000
    for (let step = 0; step < maxDays; step += 1) {
      const date = new Date(at)
      const year = date.getUTCFullYear()
      const month = date.getUTCMonth()
      if (!fields.month.has(month + 1)) {
        at = Date.UTC(year, month + 1, 1)
        continue
      }
      const midnight = Date.UTC(year, month, date.getUTCDate())
      const time = dayMatches(fields, date) ? timeOfDay((at - midnight) / 1_000) : undefined
      if (time !== undefined) return midnight + time * 1_000
      at = midnight + daySeconds * 1_000
    }
    return undefined
  }
}

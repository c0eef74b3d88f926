import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { firesOnce } from "../schedule/SchedulerSpans.js"

const year = { from: Date.UTC(2030, 0, 1), to: Date.UTC(2031, 0, 1) }

/** Fires of each schedule in 2030, counted by hand. */
const timetable = [
  // 365 days, of which one has 23 hours and one 25.
  { name: "paris-nightly", cron: "30 2 * * *", timezone: "Europe/Paris", count: 365 },
  { name: "new-york-nightly", cron: "30 1 * * *", timezone: "America/New_York", count: 365 },
  // Every third hour in UTC; Lord Howe is offset by half an hour.
  { name: "every-three-hours", cron: "0 */3 * * *", timezone: "UTC", count: 8 * 365 },
  { name: "lord-howe-nightly", cron: "15 2 * * *", timezone: "Australia/Lord_Howe", count: 365 },
  { name: "santiago-midnight", cron: "@daily", timezone: "America/Santiago", count: 365 },
  // The year begins on a Tuesday: 52 weeks and that day.
  { name: "weekdays", cron: "0 9 * * MON-FRI", timezone: "Asia/Kolkata", count: 52 * 5 + 1 },
  { name: "month-end", cron: "0 12 L * *", timezone: "UTC", count: 12 },
  { name: "leap-day", cron: "0 0 29 2 *", timezone: "UTC", count: 0 }
]

describe("three pods over a year that come and go, with uncertain leadership", () => {
  it.live("store one job per schedule and tick", () =>
    Effect.gen(function* () {
      expect(yield* firesOnce(year, timetable)).toBeGreaterThan(3_000)
    })
  )
})

import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { firesOnce } from "./SchedulerSpans.js"

// Six weeks of 2030 in which clocks are set in New York (10 March), Paris (31 March), Lord Howe and Santiago (7 April).
const spring = { from: Date.UTC(2030, 2, 1), to: Date.UTC(2030, 3, 15) }

/** Fires of each schedule in these 45 days, counted by hand. */
const timetable = [
  { name: "paris-nightly", cron: "30 2 * * *", timezone: "Europe/Paris", count: 45 },
  { name: "new-york-nightly", cron: "30 1 * * *", timezone: "America/New_York", count: 45 },
  { name: "every-three-hours", cron: "0 */3 * * *", timezone: "UTC", count: 8 * 45 },
  { name: "lord-howe-nightly", cron: "15 2 * * *", timezone: "Australia/Lord_Howe", count: 45 },
  { name: "santiago-midnight", cron: "@daily", timezone: "America/Santiago", count: 45 },
  // Six weeks and a Friday.
  { name: "weekdays", cron: "0 9 * * MON-FRI", timezone: "Asia/Kolkata", count: 6 * 5 + 1 },
  { name: "month-end", cron: "0 12 L * *", timezone: "UTC", count: 1 },
  { name: "leap-day", cron: "0 0 29 2 *", timezone: "UTC", count: 0 }
]

describe("three pods over six weeks that come and go, with uncertain leadership", () => {
  it.live("store one job per schedule and tick", () =>
    Effect.gen(function* () {
      expect(yield* firesOnce(spring, timetable)).toBeGreaterThan(350)
    })
  )
})

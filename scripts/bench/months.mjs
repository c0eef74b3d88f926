// A month of virtual time in `testShift`, as tests of users spend it: in a fresh process, whose code is not compiled yet.
import { z } from "zod"

/** CPU milliseconds of the move alone. A month of 30 days, with a job per hour or without jobs. */
export const month = async (_instance, { hourly }) => {
  const { job } = await import("../../dist/client.js")
  const { testShift } = await import("../../dist/testing.js")
  const tidy = job("tidy", { payload: z.object({}) })
  const shift = await testShift({
    handlers: [tidy.handle(async () => "tidy")],
    schedules: hourly ? [tidy.schedule("hourly", { payload: {}, cron: "0 * * * *" })] : []
  })
  const before = process.cpuUsage()
  await shift.advance("30 days")
  const { system, user } = process.cpuUsage(before)
  const runs = await shift.jobs.count({ state: "done" })
  if (runs !== (hourly ? 720 : 0)) throw new Error(`${runs} jobs ran`)
  return { runs, value: (user + system) / 1000 }
}

const monthOf =
  ({ hourly }) =>
  (bench) =>
    bench.child("month", { outside: true, hourly })

export const monthRows = [
  {
    id: "month",
    title: "a virtual month without jobs, in a test",
    unit: "CPU ms",
    systems: ["nightshift"],
    measure: monthOf({ hourly: false })
  },
  {
    id: "month-hourly",
    title: "the same with 720 runs",
    unit: "CPU ms",
    systems: ["nightshift"],
    measure: monthOf({ hourly: true })
  }
]

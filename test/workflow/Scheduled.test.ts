import { describe, expect, it } from "vitest"
import { z } from "zod"
import { InvalidScheduleError, workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"

// Schedules that start executions, on virtual time.

const report = workflow("report", { payload: z.object({ days: z.number() }) }, async ({ days }, step) => {
  await step.sleep("collect", `${days}h`)
  return days
})

const hourly = (overlap?: "skip", days = 0.5) =>
  report.schedule("hourly", { payload: { days }, cron: "0 * * * *", ...(overlap === undefined ? {} : { overlap }) })

describe("a schedule of a workflow", () => {
  it("starts one execution at each of its instants, whose key is the schedule and the instant", async () => {
    await using shift = await testShift({ handlers: [report], schedules: [hourly()], startAt: "2026-03-28T00:30:00Z" })
    await shift.advance("3h")
    const all = await shift.workflows.list({ workflow: "report" }).toArray()
    expect(all.map(({ execution, state }) => [execution, state])).toEqual([
      ["report/hourly/2026-03-28T03:00:00.000Z", "done"],
      ["report/hourly/2026-03-28T02:00:00.000Z", "done"],
      ["report/hourly/2026-03-28T01:00:00.000Z", "done"]
    ])
    expect(await shift.execution(report, "hourly/2026-03-28T02:00:00.000Z").result()).toBe(0.5)
    expect((await shift.job(all[0]?.id ?? "")).meta).toEqual({ schedule: "hourly", tick: "2026-03-28T03:00:00.000Z" })
  })

  it("skips an instant while the previous execution sleeps, if runs must not overlap", async () => {
    const options = { handlers: [report], schedules: [hourly("skip", 1.5)], startAt: "2026-03-28T00:30:00Z" }
    await using shift = await testShift(options)
    await shift.advance("4h")
    const all = await shift.workflows.list({ workflow: "report" }).toArray()
    expect(all.map(({ execution }) => execution)).toEqual([
      "report/hourly/2026-03-28T03:00:00.000Z",
      "report/hourly/2026-03-28T01:00:00.000Z"
    ])
    expect((await shift.schedules.get("hourly")).lastSkipAt).toEqual(new Date("2026-03-28T04:00:00Z"))
  })

  it("starts an execution each time it is triggered", async () => {
    await using shift = await testShift({ handlers: [report], schedules: [hourly()] })
    const ids = [await shift.schedules.trigger("hourly"), await shift.schedules.trigger("hourly")]
    await shift.advance("1h")
    expect(await Promise.all(ids.map(async (id) => shift.result(id)))).toEqual([0.5, 0.5])
    const all = await shift.workflows.list({ prefix: "report/hourly/triggered/" }).toArray()
    expect(all.map(({ id }) => id).sort()).toEqual([...ids].sort())
  })

  it("can be created at run time, once a worker knows the workflow", async () => {
    await using without = await testShift({ handlers: [], queues: ["default"] })
    const refused = without.schedules.put(hourly())
    await expect(refused).rejects.toBeInstanceOf(InvalidScheduleError)
    await expect(refused).rejects.toThrow('no worker has registered the workflow "report" yet')
    await using shift = await testShift({ handlers: [report] })
    await shift.schedules.put(hourly())
    await shift.advance("1h")
    expect(await shift.workflows.count({ workflow: "report" })).toBe(1)
  })

  it("checks the payload", () => {
    expect(report.schedule("hourly", { payload: { days: "one" as never }, cron: "0 * * * *" }).fault).toContain(
      "payload.days"
    )
  })
})

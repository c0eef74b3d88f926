import { setTimeout as sleep } from "node:timers/promises"
import { workflow } from "nightshift/client"
import { z } from "zod"

// A workflow with children. If a step fails for good, what was done is undone in reverse order.
const flight = workflow("flight", { payload: z.object({ to: z.string() }), queue: "trips" }, async ({ to }, step) =>
  step.run("book seat", async () => {
    await sleep(2000)
    return `seat to ${to}`
  })
)

const trip = workflow("trip", { payload: z.object({ full: z.boolean() }), queue: "trips" }, async ({ full }, step) => {
  const paid = await step.run("pay", () => sleep(1500).then(() => "payment 17"), {
    undo: (payment, { log }) => log.info("paid back", { payment })
  })
  const seats = await step.all("flights", ["Oslo", "Rome"], (to) => flight({ to }))
  await step.run(
    "book hotel",
    async () => {
      await sleep(1500)
      if (full) throw new Error("the hotel is full")
    },
    { attempts: 2, backoff: "3s", undo: () => sleep(1000) }
  )
  return { paid, seats }
})

export const handlers = [trip, flight]
export const queues = { trips: 6 }

// The buttons of this page. Open Workflows in Mission Control to see the steps.
export const actions = {
  "Start a trip": (shift) => shift.start(trip, { full: false }),
  "Start a trip to a full hotel": (shift) => shift.start(trip, { full: true })
}

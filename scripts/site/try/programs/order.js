import { setTimeout as sleep } from "node:timers/promises"
import { event, job, on, workflow } from "nightshift/client"
import { z } from "zod"

const Order = z.object({ id: z.string() })
const placed = event("order.placed", Order)

// A job. One in three attempts fails and is tried again, after 2 s, 4 s, …
const letter = job("letter", {
  payload: z.object({ to: z.string() }),
  queue: "mail",
  attempts: 12,
  backoff: { base: "2s", max: "20s" }
})
const sendLetter = letter.handle(async ({ to }, { log }) => {
  await sleep(3000)
  if (Math.random() < 0.3) throw new Error("the mail server did not answer")
  log.info("sent", { to })
})

// A subscriber: it gets one job for each event.
const confirm = on(placed, { as: "confirm-order", queue: "mail" }, async ({ id }) => {
  await sleep(1000)
  return `confirmed ${id}`
})

// A workflow. Each event starts one. It sleeps, waits for a signal, and survives the death of its process.
const order = workflow(
  "order",
  { payload: Order, key: ({ id }) => id, startOn: placed, queue: "orders" },
  async ({ id }, step) => {
    const receipt = await step.run("charge", async ({ attempt }) => {
      await sleep(2000)
      if (attempt === 1) throw new Error("the bank did not answer")
      return `receipt of ${id}`
    })
    await step.sleep("cool off", "10s")
    const approval = await step.waitFor("approval", { timeout: "1h" })
    await step.run("ship", () => sleep(2000))
    return { receipt, approvedBy: approval?.by ?? "nobody in time" }
  }
)

export const handlers = [sendLetter, confirm, order]
export const queues = { mail: 4, orders: 4 }

// The buttons of this page.
let orders = 0
const to = () => ({ to: `customer ${Math.ceil(Math.random() * 1000)}` })
export const actions = {
  "Enqueue 1 letter": (shift) => shift.enqueue(letter, to()),
  "Enqueue 20 letters": (shift) => shift.enqueueMany(letter, Array.from({ length: 20 }, to)),
  "Publish order.placed": (shift) => shift.publish(placed, { id: `A-${++orders}` }),
  "Approve the last order": (shift) => shift.execution(order, `A-${orders}`).signal("approval", { by: "you" })
}

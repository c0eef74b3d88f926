import { setTimeout as sleep } from "node:timers/promises"
import { job } from "nightshift/client"
import { z } from "zod"

// The leader of the processes fires the schedules. Kill it, and another process leads.
const backup = job("backup", { payload: z.object({ of: z.string() }), queue: "nights" })
const copy = backup.handle(async ({ of }, { progress }) => {
  for (let percent = 0; percent <= 100; percent += 20) {
    await progress({ percent })
    await sleep(1000)
  }
  return `copied ${of}`
})

export const handlers = [copy]
export const queues = { nights: 4 }
export const schedules = [
  backup.schedule("orders-each-15s", { payload: { of: "orders" }, cron: "*/15 * * * * *" }),
  backup.schedule("all-each-night", { payload: { of: "everything" }, cron: "0 3 * * *", timezone: "Europe/Zurich" })
]

// The buttons of this page. Set the speed to 60x to see a night pass in minutes.
export const actions = {
  "Enqueue 1 backup": (shift) => shift.enqueue(backup, { of: "letters" }),
  "Enqueue a backup in 1 h": (shift) => shift.enqueue(backup, { of: "pictures" }, { delay: "1h" })
}

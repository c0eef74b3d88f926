import { setTimeout as sleep } from "node:timers/promises"
import { job } from "nightshift/client"
import { z } from "zod"

// Jobs with the same key run one at a time and in their order. Other keys run beside them.
const update = job("update", { payload: z.object({ chat: z.string(), text: z.int() }), queue: "chats" })
const answer = update.handle(async ({ chat, text }) => {
  await sleep(1500)
  return `answer to message ${text} of ${chat}`
})

// At most 10 of these jobs start in 10 seconds, in all processes together.
const report = job("report", { payload: z.object({ page: z.int() }), queue: "reports" })
const write = report.handle(({ page }) => `page ${page}`)

export const handlers = [answer, write]
export const queues = {
  chats: { workers: 4, perKey: { concurrency: 1, order: "serial" } },
  reports: { workers: 4, rate: "10/10s" }
}

// The buttons of this page.
let texts = 0
const message = (shift, chat) => shift.enqueue(update, { chat, text: ++texts }, { key: chat })
export const actions = {
  "Enqueue 6 messages of 2 chats": (shift) =>
    Promise.all(["ada", "grace", "ada", "grace", "ada", "grace"].map((chat) => message(shift, chat))),
  "Enqueue 40 reports": (shift) =>
    shift.enqueueMany(
      report,
      Array.from({ length: 40 }, (_, page) => ({ page }))
    )
}

// A worker process of the film: runs reports of twenty pages.
import { setTimeout as sleep } from "node:timers/promises"
import { z } from "zod"
import { connect, job, worker } from "../../dist/client.js"

const pages = 20
const report = job("nightly_report", { payload: z.object({ day: z.string() }), queue: "reports", timeout: "2m" })
const shift = await connect(process.env.DATABASE_URL, { log: false })
await worker(shift, {
  handlers: [
    report.handle(async ({ day }, { log, progress }) => {
      log.info(`report of ${day}: process ${process.pid} starts`)
      for (let page = 1; page <= pages; page += 1) {
        await sleep(350)
        await progress({ done: page, of: pages })
      }
      return { day, pages, process: process.pid }
    })
  ]
})
process.send("ready")

import { testShift } from "nightshift/testing"
import { expect, it } from "vitest"
import { handlersWith, type Mailer, UnknownAddress } from "../src/handlers.js"
import { sendReceipt } from "../src/jobs.js"

// No database, no waiting: jobs are in memory and the test moves the clock.

const receipt = { orderId: 17, email: "ada@example.org" }

it("sends the receipt once the mail server is back", async () => {
  const sent: Array<string> = []
  const downForAnHour: Mailer = {
    send: async ({ to }) => {
      if (shift.now() < new Date("2026-01-01T01:00:00Z")) throw new Error("mail server is down")
      sent.push(to)
    }
  }
  await using shift = await testShift({ handlers: handlersWith(downForAnHour), startAt: "2026-01-01T00:00:00Z" })
  const { id } = await shift.enqueue(sendReceipt, receipt)
  await shift.advance("1h")
  expect(sent).toEqual([])
  await shift.advance("11m")
  expect(await shift.job(id)).toMatchObject({ state: "done", attempt: 4, result: { sentTo: "ada@example.org" } })
  expect(sent).toEqual(["ada@example.org"])
})

it("does not retry an address that does not exist", async () => {
  const nowhere: Mailer = { send: () => Promise.reject(new UnknownAddress("no such mailbox")) }
  await using shift = await testShift({ handlers: handlersWith(nowhere) })
  const { id } = await shift.enqueue(sendReceipt, receipt)
  await shift.drain()
  expect(await shift.job(id)).toMatchObject({ state: "dead", attempt: 1, lastError: "no such mailbox" })
})

import { testShift } from "nightshift/testing"
import { expect, it } from "vitest"
import { type Bank, makeOrder, shipment } from "../src/order.js"

const order = { id: "A-17", cents: 4200, items: ["book", "lamp"] }

/** A bank that remembers its calls. */
const makeBank = () => {
  const calls: Array<string> = []
  const bank: Bank = {
    charge: async (key) => {
      calls.push(`charge ${key}`)
      return { payment: "p-1" }
    },
    refund: async (key, payment) => void calls.push(`refund ${payment} ${key}`)
  }
  return { bank, calls }
}

it("charges once, and refunds when the booking fails", async () => {
  const { bank, calls } = makeBank()
  const orders = makeOrder(bank)
  // A test shift has no database: `step.runInTransaction` fails in it.
  await using shift = await testShift({ handlers: [orders, shipment] })
  const run = await shift.start(orders, order)
  await shift.drain()
  expect(await run.status()).toMatchObject({ state: "failed", reason: "rejected" })
  expect(calls).toEqual(["charge order/A-17/charge", "refund p-1 order/A-17/undo:charge"])
})

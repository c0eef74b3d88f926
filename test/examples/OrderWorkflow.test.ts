import { connect, worker } from "nightshift/client"
import { beforeAll, describe, expect, it } from "vitest"
import { type Bank, makeOrder, shipment } from "../../examples/order-workflow/src/order.js"
import "../../examples/order-workflow/test/order.test.js"
import { useDatabase } from "../client/ClientDatabase.js"

const database = useDatabase()
beforeAll(async () => {
  await database.pool().query("create table booking (id text primary key, payment text not null)")
})

const patience = { timeout: "60s" } as const
const bookings = async () =>
  (await database.pool().query("select id from booking order by id")).rows.map(({ id }) => id)

describe("the order workflow", () => {
  it("pays, books, waits for the approval and ships; without approval the payment is refunded", async () => {
    const calls: Array<string> = []
    const bank: Bank = {
      charge: async (key) => {
        calls.push(`charge ${key}`)
        return { payment: key }
      },
      refund: async (_, payment) => void calls.push(`refund ${payment}`)
    }
    await using shift = await connect(database.url(), { log: false })
    const orders = makeOrder(bank, { coolOff: "200ms", approval: "600ms" })
    await using _ = await worker(shift, { handlers: [orders, shipment] })
    await shift.execution(orders, "A-17").signal("approval", { by: "ada" })
    const start = (id: string) => shift.start(orders, { id, cents: 100, items: ["book", "lamp"] })
    const [approved, ignored] = [await start("A-17"), await start("B-1")]
    expect(await approved.result(patience)).toEqual({ approvedBy: "ada", parcels: 2 })
    await expect(ignored.result(patience)).rejects.toMatchObject({ code: "JOB_DEAD" })
    expect(await bookings()).toEqual(["A-17"])
    expect(calls.sort()).toEqual(["charge order/A-17/charge", "charge order/B-1/charge", "refund order/B-1/charge"])
  })
})

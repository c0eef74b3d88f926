import { workflow } from "nightshift/client"
import { z } from "zod"

export const Order = z.object({ id: z.string(), cents: z.number().int(), items: z.array(z.string()) })
export type Order = z.infer<typeof Order>

/** The payment provider. `key` is an idempotency key, as real providers accept: a repeated call has no effect. */
export interface Bank {
  charge(key: string, order: Order): Promise<{ readonly payment: string }>
  refund(key: string, payment: string): Promise<void>
}

/** How long an order may be changed, and how long an approval may take. */
export interface Terms {
  readonly coolOff: `${number}d` | `${number}ms`
  readonly approval: `${number}d` | `${number}ms`
}

/** A parcel: one child execution per item. */
export const shipment = workflow("shipment", { payload: z.object({ item: z.string() }) }, async ({ item }, step) => {
  const label = await step.run("print label", ({ idempotencyKey }) => `label of ${item} (${idempotencyKey})`)
  return { item, label }
})

/** What executions of an order receive. Senders get its type, and invalid values are refused. */
const signals = { approval: z.object({ by: z.string() }) }

/** An order: payment, booking, three days of waiting, approval, shipping. Everything is undone if it fails. */
export const makeOrder = (bank: Bank, terms: Terms = { coolOff: "3d", approval: "7d" }) =>
  workflow("order", { payload: Order, key: (order) => order.id, signals, version: 1 }, async (order, step) => {
    const { payment } = await step.run("charge", ({ idempotencyKey }) => bank.charge(idempotencyKey, order), {
      attempts: 6,
      undo: (paid, { idempotencyKey }) => bank.refund(idempotencyKey, paid.payment)
    })
    const book = "insert into booking (id, payment) values ($1, $2)"
    await step.runInTransaction("book", async ({ tx }) => void (await tx.query(book, [order.id, payment])), {
      undo: () =>
        step.runInTransaction("cancel booking", async ({ tx }) => {
          await tx.query("delete from booking where id = $1", [order.id])
        })
    })
    await step.sleep("cool off", terms.coolOff)
    const approval = await step.waitFor("approval", { timeout: terms.approval })
    if (approval === undefined) throw new Error("the order was not approved in time")
    const parcels = await step.all("ship", order.items, (item) => shipment({ item }))
    return { approvedBy: approval.by, parcels: parcels.length }
  })

import type { NodePgDatabase } from "drizzle-orm/node-postgres"
import express from "express"
import { JobNotFoundError, type Shift } from "nightshift/client"
import { z } from "zod"
import { sendReceipt } from "./jobs.js"
import { orders } from "./schema.js"

const Order = z.object({ email: z.email(), cents: z.number().int().positive() })

export const createApp = (db: NodePgDatabase, shift: Shift) => {
  const app = express()
  app.use(express.json())

  app.post("/orders", async (request, response) => {
    const order = Order.safeParse(request.body)
    if (!order.success) {
      response.status(400).json({ error: z.prettifyError(order.error) })
      return
    }
    // The order and its job commit together, or neither exists.
    const stored = await db.transaction(async (tx) => {
      const [row] = await tx.insert(orders).values(order.data).returning({ id: orders.id })
      if (row === undefined) throw new Error("the insert returned no row")
      const { id } = await shift.enqueue(sendReceipt, { orderId: row.id, email: order.data.email }, { tx })
      return { order: row.id, job: id }
    })
    response.status(201).json(stored)
  })

  app.get("/jobs/:id", async (request, response) => {
    try {
      const { attempt, lastError, state } = await shift.job(request.params.id)
      response.json({ state, attempt, lastError })
    } catch (error) {
      if (!(error instanceof JobNotFoundError)) throw error
      response.status(404).json({ error: error.message })
    }
  })

  return app
}

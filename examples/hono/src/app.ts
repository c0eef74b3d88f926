import { Hono } from "hono"
import { InvalidPayloadError, JobNotFoundError, JobStateError, type Shift } from "nightshift/client"
import { remind } from "./jobs.js"

export const createApp = (shift: Shift) =>
  new Hono()
    // Every visit moves the reminder: 24 hours after the last one, the customer gets one mail.
    .post("/carts/:cart/visits", async (c) => {
      const { email } = await c.req.json()
      const cart = c.req.param("cart")
      const { id, outcome } = await shift.enqueue(
        remind,
        { email, cart },
        { delay: "24h", dedupe: { key: `remind:${cart}`, replace: true } }
      )
      return c.json({ job: id, moved: outcome === "deduplicated" }, 202)
    })
    // A customer who orders needs no reminder.
    .delete("/reminders/:job", async (c) => {
      const { state } = await shift.cancel(c.req.param("job"))
      return c.json({ state })
    })
    .onError((error, c) => {
      if (error instanceof InvalidPayloadError) return c.json({ error: error.message }, 400)
      if (error instanceof JobNotFoundError) return c.json({ error: error.message }, 404)
      if (error instanceof JobStateError) return c.json({ error: error.message }, 409)
      return c.json({ error: "internal error" }, 500)
    })

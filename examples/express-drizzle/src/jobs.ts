import { job } from "nightshift/client"
import { z } from "zod"

/** Imported by the web process, which enqueues it, and by the worker, which runs it. */
export const sendReceipt = job("send_receipt", {
  payload: z.object({ orderId: z.number().int(), email: z.email() }),
  queue: "mail",
  attempts: 4,
  backoff: ["1m", "10m", "1h"],
  timeout: "30s"
})

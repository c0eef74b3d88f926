import { job } from "nightshift/client"
import { z } from "zod"

// The job that the Python and Go programs enqueue. The service checks their payloads against this validator.
const sendReceipt = job("send_receipt", { payload: z.object({ orderId: z.string(), email: z.email() }), queue: "mail" })

export const handlers = [sendReceipt.handle(async ({ email, orderId }) => ({ sent: `${orderId} to ${email}` }))]

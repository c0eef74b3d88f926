import { Outcome } from "nightshift/client"
import { sendReceipt } from "./jobs.js"

export interface Mailer {
  /** Sends one mail. The same `idempotencyKey` twice is one mail. */
  send(mail: { to: string; subject: string; idempotencyKey: string }, signal: AbortSignal): Promise<void>
}

export class UnknownAddress extends Error {}

/** What the worker runs. A test passes another mailer. */
export const handlersWith = (mailer: Mailer) => [
  sendReceipt.handle(async ({ email, orderId }, { id, log, signal }) => {
    try {
      await mailer.send({ to: email, subject: `Your order ${orderId}`, idempotencyKey: id }, signal)
    } catch (error) {
      // No retry makes this address exist. Every other error is thrown, and the job is tried again.
      if (error instanceof UnknownAddress) return Outcome.dead(error.message)
      throw error
    }
    log.info(`sent the receipt of order ${orderId}`)
    return { sentTo: email }
  })
]

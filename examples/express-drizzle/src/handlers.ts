import { Outcome } from "nightshift/client"
import { sendReceipt } from "./jobs.js"

export interface Mailer {
  /** Sends one mail. The same `idempotencyKey` twice is one mail. */
  send(mail: { to: string; subject: string; idempotencyKey: string }, signal: AbortSignal): Promise<void>
}

export class UnknownAddress extends Error {}

/** The handlers of the worker. Tests pass another mailer. */
export const handlersWith = (mailer: Mailer) => [
  sendReceipt.handle(async ({ email, orderId }, { id, log, signal }) => {
    try {
      await mailer.send({ to: email, subject: `Your order ${orderId}`, idempotencyKey: id }, signal)
    } catch (error) {
      // A retry cannot help: the address does not exist. Other errors are thrown, and the job is retried.
      if (error instanceof UnknownAddress) return Outcome.dead(error.message)
      throw error
    }
    log.info(`sent the receipt of order ${orderId}`)
    return { sentTo: email }
  })
]

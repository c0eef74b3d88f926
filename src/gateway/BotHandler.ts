import { Data, type Effect } from "effect"
import type { Outcome } from "../core/Outcome.js"
import type { JobContext } from "../handlers/JobContext.js"
import type { BotDeclaration } from "./config/Declarations.js"
import type { Reply } from "./telegram/Reply.js"
import type { Update } from "./telegram/TelegramUpdate.js"

/** An update passed to a bot's handler. */
export interface Delivery {
  readonly bot: Pick<BotDeclaration, "slug" | "token">
  readonly update: Update
  /** The job that carries the update. Undefined for a sync bot, which replies without storing a job. */
  readonly job: JobContext | undefined
}

/** Handles a bot's updates, both sync and async. */
export interface BotHandler {
  /** Takes an update and returns an optional reply. A failure may be retried. */
  readonly handle: (delivery: Delivery) => Effect.Effect<Reply | undefined, unknown>
}

/** The handler returned an outcome other than a reply: retry, throttled, snooze or dead. */
export class NonReplyOutcome extends Data.TaggedError("NonReplyOutcome")<{ readonly outcome: Outcome }> {
  override get message(): string {
    const { outcome } = this
    return "error" in outcome ? outcome.error : `the handler ended with ${outcome._tag}`
  }
}

import { Data, type Effect } from "effect"
import type { Outcome } from "../core/Outcome.js"
import type { JobContext } from "../handlers/JobContext.js"
import type { BotDeclaration } from "./config/Declarations.js"
import type { Reply } from "./telegram/Reply.js"
import type { Update } from "./telegram/TelegramUpdate.js"

/** An update on its way to whoever answers it. */
export interface Delivery {
  readonly bot: Pick<BotDeclaration, "slug" | "token">
  readonly update: Update
  /** The job that carries it; absent for a sync bot, which answers before it is stored anywhere. */
  readonly job: JobContext | undefined
}

/** Who answers a bot's updates, sync and async alike. */
export interface BotHandler {
  /** Update in, optional reply out. A failure may succeed when it is tried again. */
  readonly handle: (delivery: Delivery) => Effect.Effect<Reply | undefined, unknown>
}

/** The handler's work ended in something else than an answer: it is to be tried later, or never again. */
export class EndedOtherwise extends Data.TaggedError("EndedOtherwise")<{ readonly outcome: Outcome }> {
  override get message(): string {
    const { outcome } = this
    return "error" in outcome ? outcome.error : `the handler ended with ${outcome._tag}`
  }
}

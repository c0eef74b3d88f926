import { Schema } from "effect"
import type { FollowUp } from "../../core/StoredJob.js"
import * as Job from "../../queue/Job.js"
import { queueOf } from "../config/Declarations.js"

/** Notifies a user that their message could not be processed. The follow-up of an async bot's dead job. */
export const DeadLetter = Job.make("telegram.dead_letter", {
  payload: Schema.Struct({ bot: Schema.String, chat: Schema.Int }),
  maxAttempts: 5,
  timeout: "1 minute"
})

/** Makes the follow-up of a bot's job. It uses the bot's own queue, so pausing the bot pauses it too. */
export const followUp = (bot: string, chat: number): FollowUp => ({
  kind: DeadLetter.name,
  version: DeadLetter.version,
  queue: queueOf(bot),
  payload: { bot, chat },
  maxAttempts: DeadLetter.maxAttempts
})

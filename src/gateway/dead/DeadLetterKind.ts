import { Schema } from "effect"
import type { FollowUp } from "../../core/StoredJob.js"
import * as Job from "../../queue/Job.js"
import { queueOf } from "../config/Declarations.js"

/** Tells a user that what they sent could not be handled: the follow-up of an async bot's job. */
export const DeadLetter = Job.make("telegram.dead_letter", {
  payload: Schema.Struct({ bot: Schema.String, chat: Schema.Int }),
  maxAttempts: 5,
  timeout: "1 minute"
})

/** The follow-up of a job of a bot that belongs to a chat. It waits in the bot's own queue, so that it rests with the bot. */
export const followUp = (bot: string, chat: number): FollowUp => ({
  kind: DeadLetter.name,
  version: DeadLetter.version,
  queue: queueOf(bot),
  payload: { bot, chat },
  maxAttempts: DeadLetter.maxAttempts
})

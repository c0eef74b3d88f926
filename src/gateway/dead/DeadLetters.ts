import { Context, type Duration, type Effect, Schema } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { FollowUp } from "../../core/StoredJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import * as Job from "../../queue/Job.js"
import { queueOf } from "../config/Declarations.js"

/** Result of a send. `withdrawn`: certainly not sent, may be retried. `unknown`: may or may not have been sent. */
export type SendResult = "sent" | "refused" | "unknown" | "withdrawn"

/** State of a message. `intended`: about to be sent, or its process died while sending. */
export type LetterState = "intended" | SendResult

export interface Letter {
  /** The dead job. */
  readonly job: JobId
  readonly bot: string
  readonly chat: number
}

/**
 * Messages that notify users of dead jobs. Telegram has no idempotency key for sending, so the intent is stored first,
 * and an attempt that finds an unfinished intent does not send again.
 */
export class DeadLetters extends Context.Tag("nightshift/gateway/DeadLetters")<
  DeadLetters,
  {
    /** Stores the intent to send a message. Returns undefined if the caller may send it, or else the known state. */
    readonly intend: (letter: Letter) => Effect.Effect<LetterState | undefined, DatabaseError>

    /** Stores the result of a send. Only an intended message changes. */
    readonly record: (job: JobId, result: SendResult) => Effect.Effect<void, DatabaseError>

    /** Deletes older messages. Returns the number deleted. */
    readonly purge: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>
  }
>() {}

/** Notifies a user that their message could not be processed. The follow-up of an async bot's dead job. */
export const DeadLetter = Job.make("telegram.dead_letter", {
  payload: Schema.Struct({ bot: Schema.String, chat: Schema.Int }),
  attempts: 5,
  timeout: "1 minute"
})

/** Makes the follow-up of a bot's job. Uses the bot's own queue, so pausing the queue also pauses these messages. */
export const followUp = (bot: string, chat: number): FollowUp =>
  Job.followUpOf(DeadLetter, { payload: { bot, chat }, queue: queueOf(bot) })

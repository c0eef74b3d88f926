import { Context, type Duration, type Effect } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { DatabaseError } from "../../database/DatabaseError.js"

/** What became of a message. `withdrawn` was certainly not sent and may be tried again; of `unknown` nobody knows. */
export type SendResult = "sent" | "refused" | "unknown" | "withdrawn"

/** What is known of a message: `intended` is about to be sent, or was when its process died. */
export type LetterState = "intended" | SendResult

export interface Letter {
  /** The job that died. */
  readonly job: JobId
  readonly bot: string
  readonly chat: number
}

/**
 * Messages that tell users of dead jobs. Sending has no idempotency key, so the intent is written down first: whoever finds
 * one that is not settled does not send again.
 */
export class DeadLetters extends Context.Tag("nightshift/gateway/DeadLetters")<
  DeadLetters,
  {
    /** Writes down that the message is about to be sent. Answers nothing to the one who may send it, and to all others what is known of it. */
    readonly intend: (letter: Letter) => Effect.Effect<LetterState | undefined, DatabaseError>

    /** Writes down what became of it. A settled one stays as it is, unless it was withdrawn. */
    readonly record: (job: JobId, result: SendResult) => Effect.Effect<void, DatabaseError>

    /** Forgets those intended so long ago. Returns how many. */
    readonly purge: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>
  }
>() {}

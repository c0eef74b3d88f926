import { Duration, Effect, Predicate, Schema } from "effect"
import { JobId } from "../../core/Ids.js"
import * as Outcome from "../../core/Outcome.js"
import * as Handler from "../../handlers/Handler.js"
import type { JobContext } from "../../handlers/JobContext.js"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { Bots, untilDeclared } from "../Bots.js"
import { Telegram, type TelegramError } from "../telegram/Telegram.js"
import { DeadLetter, DeadLetters, type SendResult } from "./DeadLetters.js"

const letters = MetricSpec.counter("dead_letters_total", "Messages that notify users of dead jobs, by outcome.", [
  "bot",
  "outcome"
])

const text = "Sorry, something you sent here could not be processed and will not be retried."

const decodeId = Schema.decodeUnknownOption(JobId)

/** Returns the dead job's id, or the follow-up's own id if its meta names none. */
const deadJobOf = ({ id, meta }: JobContext): JobId => {
  const follows = Predicate.hasProperty(meta, "follows") ? decodeId(meta.follows) : undefined
  return follows?._tag === "Some" ? follows.value : id
}

/**
 * Returns the result of a failed send, and the outcome of the job: a retry only if the message certainly did not
 * arrive.
 */
const resultOf = (error: TelegramError): { readonly result: SendResult; readonly again?: Outcome.Outcome } => {
  switch (error._tag) {
    case "TelegramThrottled": {
      const after = Duration.seconds(error.retryAfter)
      return { result: "withdrawn", again: Outcome.throttled({ after, scope: "job" }) }
    }
    case "ChatClosed":
    case "TelegramRefused":
      return { result: "refused" }
    case "TokenRefused":
      return { result: "withdrawn", again: Outcome.retry(error.message) }
    case "TelegramUnavailable":
      return error.maybeDone ? { result: "unknown" } : { result: "withdrawn", again: Outcome.retry(error.message) }
  }
}

/** Notifies the user at most once per dead job. */
export const handler: Handler.Handler<Bots | Telegram | DeadLetters | Metrics> = Handler.make(
  DeadLetter,
  ({ bot: slug, chat }, job) =>
    Effect.gen(function* () {
      const telegram = yield* Telegram
      const deadLetters = yield* DeadLetters
      const metrics = yield* Metrics
      const bot = (yield* Bots).bot(slug)
      if (bot === undefined) return Outcome.snooze(untilDeclared)
      const dead = deadJobOf(job)

      const record = (result: SendResult) =>
        Effect.map(deadLetters.record(dead, result), () => {
          if (result !== "withdrawn") metrics.series(letters, { bot: slug, outcome: result }).add(1)
          return Outcome.done({ outcome: result })
        })

      const known = yield* deadLetters.intend({ job: dead, bot: slug, chat })
      // An earlier attempt recorded its intent but no result: the process died or could not write. The message may have
      // been sent, so do not send it again.
      if (known === "intended") return yield* record("unknown")
      if (known !== undefined) return Outcome.done({ outcome: known })

      // Use a new connection: a kept-alive one may be closing, which would leave the result unknown.
      return yield* telegram.sendMessage(bot.token, { chat, text, fresh: true }).pipe(
        Effect.matchEffect({
          onSuccess: () => record("sent"),
          onFailure: (error) => {
            const { again, result } = resultOf(error)
            return Effect.map(record(result), (recorded) => again ?? recorded)
          }
        })
      )
    })
)

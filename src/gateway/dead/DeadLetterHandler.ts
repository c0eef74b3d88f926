import { Duration, Effect, Predicate, Schema } from "effect"
import { JobId } from "../../core/Ids.js"
import * as Outcome from "../../core/Outcome.js"
import * as Handler from "../../handlers/Handler.js"
import type { JobContext } from "../../handlers/JobContext.js"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { Bots } from "../Bots.js"
import { Telegram } from "../telegram/Telegram.js"
import type { TelegramError } from "../telegram/TelegramErrors.js"
import { DeadLetter } from "./DeadLetterKind.js"
import { DeadLetters, type SendResult } from "./DeadLetters.js"

const letters = MetricSpec.counter(
  "dead_letters_total",
  "Messages that tell users of dead jobs, by what became of them.",
  ["bot", "outcome"]
)

const text = "Sorry, something you sent here could not be handled, and will not be tried again."

/** A bot that this process does not know may be known to another, or to the next. */
const untilDeclared = Duration.seconds(30)

const decodeId = Schema.decodeUnknownOption(JobId)

/** The job that died. Its follow-up stands for it where it is not said. */
const deadJobOf = ({ id, meta }: JobContext): JobId => {
  const follows = Predicate.hasProperty(meta, "follows") ? decodeId(meta.follows) : undefined
  return follows?._tag === "Some" ? follows.value : id
}

/** What became of a message that Telegram did not take, and when it may be tried again: only if it certainly did not arrive. */
const fateOf = (error: TelegramError): { readonly result: SendResult; readonly again?: Outcome.Outcome } => {
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

/** Tells the user, at most once for each dead job. */
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
      // Somebody meant to send it and never said how that went: they died, or could not write it down.
      if (known === "intended") return yield* record("unknown")
      if (known !== undefined) return Outcome.done({ outcome: known })

      // A connection of its own: one that had served before may be closing, and then nobody knows whether it was heard.
      return yield* telegram.sendMessage(bot.token, { chat, text, fresh: true }).pipe(
        Effect.matchEffect({
          onSuccess: () => record("sent"),
          onFailure: (error) => {
            const { again, result } = fateOf(error)
            return Effect.map(record(result), (recorded) => again ?? recorded)
          }
        })
      )
    })
)

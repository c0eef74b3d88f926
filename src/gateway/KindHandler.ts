import { Effect } from "effect"
import { makeGenerator } from "../core/Ids.js"
import * as Outcome from "../core/Outcome.js"
import type { JobContext } from "../handlers/JobContext.js"
import type { Entry } from "../handlers/Registry.js"
import { Transactions } from "../queue/Transactions.js"
import { type BotHandler, type Delivery, EndedOtherwise } from "./BotHandler.js"
import * as Reply from "./telegram/Reply.js"

/** What the handler sees where there is no job: an attempt that nobody will repeat. */
const withoutJob = (kind: string, queue: string, id: JobContext["id"]): JobContext => ({
  id,
  kind,
  queue,
  key: undefined,
  attempt: 1,
  maxAttempts: 1,
  meta: undefined,
  progress: () => Effect.void
})

const replyOf = (value: unknown): Effect.Effect<Reply.Reply | undefined, EndedOtherwise> => {
  if (!Outcome.isOutcome(value)) return Effect.succeed(Reply.of(value))
  if (value._tag === "Done") return Effect.succeed(Reply.of(value.result))
  return new EndedOtherwise({ outcome: value })
}

/** Has a kind's own handler answer: the update is its payload, and a text that it returns is the reply. */
export const make = <R>({ decode, handler }: Entry<R>): Effect.Effect<BotHandler, never, R | Transactions> =>
  Effect.gen(function* () {
    const context = yield* Effect.context<R>()
    const transactions = yield* Transactions
    const ids = yield* makeGenerator
    const clock = yield* Effect.clock
    const { kind, transactional } = handler

    const run = ({ job, update }: Delivery) => {
      const decoded = decode(update, kind.version)
      if (decoded._tag !== "Ready") {
        const reason = decoded._tag === "Unreadable" ? decoded.reason : "it is of a newer version"
        const error = `the update does not fit the kind ${kind.name}: ${reason}`
        return Effect.fail(new EndedOtherwise({ outcome: Outcome.dead(error) }))
      }
      const seen = job ?? withoutJob(kind.name, kind.queue, ids.job(clock.unsafeCurrentTimeMillis()))
      const attempt = Effect.flatMap(
        Effect.suspend(() => handler.run(decoded.payload, seen)),
        replyOf
      )
      return transactional ? transactions.runHandler(attempt) : attempt
    }

    return { handle: (delivery) => Effect.provide(run(delivery), context) }
  })

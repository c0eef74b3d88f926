import { Data, Duration, Effect } from "effect"
import { makeGenerator } from "../core/Ids.js"
import * as Outcome from "../core/Outcome.js"
import type { Handler } from "../handlers/Handler.js"
import type { JobContext } from "../handlers/JobContext.js"
import type { Entry } from "../handlers/Registry.js"
import { Transactions } from "../queue/Transactions.js"
import type { BotDeclaration, HandlerChoice } from "./config/Declarations.js"
import * as Reply from "./telegram/Reply.js"
import { textOf, type Update } from "./telegram/TelegramUpdate.js"

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
  readonly handle: (delivery: Delivery) => Effect.Effect<Reply.Reply | undefined, unknown>
}

/** The handler returned an outcome other than a reply: retry, throttled, snooze or dead. */
export class NonReplyOutcome extends Data.TaggedError("NonReplyOutcome")<{ readonly outcome: Outcome.Outcome }> {
  override get message(): string {
    const { outcome } = this
    return "error" in outcome ? outcome.error : `the handler ended with ${outcome._tag}`
  }
}

/** How an async bot's jobs run its handler: the timeout of an attempt, including the reply, and whether in a transaction. */
export const attemptOf = <R>(
  choice: HandlerChoice,
  kinds: ReadonlyArray<Handler<R>>
): { readonly timeout: Duration.Duration; readonly transactional: boolean } => {
  const known = choice._tag === "Kind" ? kinds.find(({ kind }) => kind.name === choice.kind) : undefined
  return {
    timeout: Duration.sum(known?.kind.timeout ?? Duration.seconds(30), Duration.seconds(30)),
    transactional: known?.transactional === true
  }
}

/** Replies with the text it received. */
export const echo: BotHandler = {
  handle: ({ update }) => Effect.succeed(Reply.make(textOf(update) ?? ""))
}

/** The job context of a sync bot, which has no job and makes a single attempt. */
const withoutJob = (kind: string, queue: string, id: JobContext["id"]): JobContext => ({
  id,
  kind,
  queue,
  key: undefined,
  attempt: 1,
  attempts: 1,
  meta: undefined,
  progress: () => Effect.void
})

const replyOf = (value: unknown): Effect.Effect<Reply.Reply | undefined, NonReplyOutcome> => {
  if (!Outcome.isOutcome(value)) return Effect.succeed(Reply.of(value))
  if (value._tag === "Done") return Effect.succeed(Reply.of(value.result))
  return new NonReplyOutcome({ outcome: value })
}

/** Makes a bot handler from the handler of a kind: the update is the payload, and a returned text is the reply. */
export const ofKind = <R>({ decode, handler }: Entry<R>): Effect.Effect<BotHandler, never, R | Transactions> =>
  Effect.gen(function* () {
    const context = yield* Effect.context<R>()
    const transactions = yield* Transactions
    const ids = yield* makeGenerator
    const clock = yield* Effect.clock
    const { kind, transactional } = handler

    const run = ({ job, update }: Delivery) => {
      const decoded = decode(update, kind.version)
      if (decoded._tag !== "Ready") {
        const reason = decoded._tag === "Unreadable" ? decoded.reason : "it has a newer payload version"
        const error = `the update does not match the payload schema of the kind ${kind.name}: ${reason}`
        return Effect.fail(new NonReplyOutcome({ outcome: Outcome.dead(error) }))
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

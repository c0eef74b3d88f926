import { Cause, Effect, Exit, Option } from "effect"
import * as Outcome from "../../core/Outcome.js"
import type { Handler } from "../../handlers/Handler.js"
import type { Actor } from "./Actor.js"
import type { HistoryChecker } from "./HistoryChecker.js"

const describeResult = (value: unknown): string =>
  Outcome.isOutcome(value) && value._tag !== "Done" ? `returned ${value._tag}` : "returned"

/** Describes how a handler ended. The invariants compare "returned". */
const howEnded = (exit: Exit.Exit<unknown, unknown>): string => {
  if (Exit.isSuccess(exit)) return describeResult(exit.value)
  const thrown = Option.orElse(Cause.failureOption(exit.cause), () => Cause.dieOption(exit.cause))
  if (Option.isSome(thrown)) return Outcome.isOutcome(thrown.value) ? describeResult(thrown.value) : "failed"
  return Cause.isInterrupted(exit.cause) ? "was interrupted" : "failed"
}

/**
 * Wraps a handler so that the checker records its runs. A user's handler may await promises (`mayWait`): the event loop
 * then gets time to resolve them.
 */
export const of = <R>(
  handler: Handler<R>,
  { actor, mayWait, checker }: { readonly actor: Actor; readonly mayWait: boolean; readonly checker: HistoryChecker }
): Handler<R> => {
  const watched =
    (run: Handler<R>["run"]): Handler<R>["run"] =>
    (payload, job) =>
      Effect.suspend(() => {
        const ended = checker.began(actor.name, job.id)
        if (mayWait) actor.waiting += 1
        return Effect.onExit(run(payload, job), (exit) =>
          Effect.sync(() => {
            if (mayWait) actor.waiting -= 1
            ended(howEnded(exit))
          })
        )
      })
  return {
    ...handler,
    run: watched(handler.run),
    ...(handler.open === undefined ? {} : { open: Effect.map(handler.open, watched) })
  }
}

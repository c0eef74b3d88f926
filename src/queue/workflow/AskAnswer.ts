import { Effect, Predicate } from "effect"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { Ask } from "./Asks.js"
import { AskFailed, AskNotAnswered, AskTimedOut, type ExecutionNotFound } from "./WorkflowErrors.js"
import type { Workflows } from "./Workflows.js"

export type AskError = ExecutionNotFound | AskFailed | AskNotAnswered | DatabaseError

/** How long callers wait for an answer if they do not say it, in milliseconds. */
export const defaultTimeout = 30_000

/** Waits for the answer to an ask that was sent. */
export const answerTo = (
  workflows: typeof Workflows.Service,
  ask: Pick<Ask, "execution" | "id" | "name">
): Effect.Effect<unknown, AskError> =>
  Effect.gen(function* () {
    const { execution, name } = ask
    const end = yield* workflows.awaitAnswer(ask)
    if (end === "ended") return yield* new AskNotAnswered({ execution, name })
    if (Predicate.hasProperty(end, "error"))
      return yield* new AskFailed({ execution, name, error: end.error.name, reason: end.error.message })
    return end.value
  })

/** Like `answerTo`, with a timeout in milliseconds. */
export const answerWithin = (
  workflows: typeof Workflows.Service,
  { execution, id, name }: Pick<Ask, "execution" | "id" | "name">,
  timeout: number
): Effect.Effect<unknown, AskError | AskTimedOut> =>
  Effect.timeoutFail(answerTo(workflows, { execution, id, name }), {
    duration: timeout,
    onTimeout: () => new AskTimedOut({ execution, name, id, timeout })
  })

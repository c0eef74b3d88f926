import { Clock, Effect, Exit } from "effect"
import * as Batcher from "../../core/Batcher.js"
import type { Database } from "../../database/Database.js"
import { type DatabaseError, isDataError, retryContention } from "../../database/DatabaseError.js"
import type { Notifier } from "../Notifier.js"
import * as SqlArrays from "../SqlArrays.js"
import type { SignalOutcome } from "./Execution.js"
import { SignalsFull } from "./WorkflowErrors.js"
import type * as WorkflowSql from "./WorkflowSql.js"
import { admittedSignal, type Signal, type Workflows } from "./Workflows.js"

interface SignalToSend extends Signal {
  readonly text: string
}

/** Sends signals, in batches. `complete` sends them in the transaction of the caller. `isOutside`: whether there is none. */
export const make = Effect.fnUntraced(function* (
  { direct }: Pick<typeof Database.Service, "direct">,
  notifier: typeof Notifier.Service,
  statements: Pick<ReturnType<typeof WorkflowSql.make>, "completeDeferred">,
  isOutside: Effect.Effect<boolean>,
  notify: (queues: ReadonlyArray<string>, isHinted?: boolean) => Effect.Effect<void, DatabaseError>
) {
  const complete = (signals: ReadonlyArray<Omit<SignalToSend, "value">>, hint: string | null) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const rows = yield* direct.rows(statements.completeDeferred, [
        SqlArrays.ofTexts(signals.map(({ execution }) => execution)),
        SqlArrays.ofTexts(signals.map(({ name }) => name)),
        SqlArrays.ofTexts(signals.map(({ id }) => id ?? null)),
        SqlArrays.ofJson(signals.map(({ text }) => text)),
        now,
        hint
      ])
      yield* notify(
        rows.flatMap(([, queue]) => (typeof queue === "string" ? queue : [])),
        hint !== null
      )
      return signals.map(({ execution, name }, place): Exit.Exit<SignalOutcome, SignalsFull> => {
        const outcome = rows[place]?.[0] as SignalOutcome | "full"
        return outcome === "full" ? Exit.fail(new SignalsFull({ execution, name })) : Exit.succeed(outcome)
      })
    })

  const sender = yield* Batcher.make<SignalToSend, SignalOutcome, SignalsFull | DatabaseError, never>({
    weight: ({ text }) => 1 + text.length / 8_192,
    maxWeight: 500,
    capacity: 10_000,
    isolate: (error) => error._tag !== "SignalsFull" && isDataError(error),
    flush: (signals) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        retryContention(complete(signals, notifier.hintOfStatement(now)))
      )
  })

  const signal: typeof Workflows.Service.signal = (given) =>
    Effect.gen(function* () {
      const text = yield* admittedSignal(given)
      const one = { ...given, text }
      if (yield* isOutside) return yield* sender.submit(one)
      const [exit] = yield* complete([one], null)
      return yield* exit ?? Effect.dieMessage("a signal has no result")
    })

  return { complete, signal }
})

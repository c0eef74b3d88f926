import { Clock, Context, Effect, Layer, Queue as Mailbox } from "effect"
import * as Budget from "../core/Budget.js"
import { repeatLoop, single } from "../core/Loop.js"
import { onEvent } from "../core/LoopSchedule.js"
import { Database } from "../database/Database.js"
import { type DatabaseError, mapErrors } from "../database/DatabaseError.js"
import { type Heard, Listener } from "../database/Listener.js"
import { Wakeups } from "./Wakeups.js"

// Telling that a queue has work: this process directly, other processes by NOTIFY on one channel whose payload is the
// queue's name. It is a hint. A notifying commit takes a lock that all of PostgreSQL shares, so a queue has a budget of hints:
// jobs that come now and then are told of at once, and of those that come in masses some are folded into one a moment later.

export const channel = (schema: string): string => `${schema}_work`

/** So many hints of a queue in one go, and one in ten milliseconds from then on. */
const budget = { most: 10, refill: 0.1 }

/** Tells whoever serves a queue that it has work. */
export class Notifier extends Context.Tag("nightshift/queue/Notifier")<
  Notifier,
  {
    /** The channel on which a statement that stores jobs of this queue is to tell others; none when they were just told. */
    readonly hint: (queue: string, now: number) => string | null

    /** Jobs of these queues were stored. In a caller's transaction the hint is part of it and goes out with its commit. */
    readonly stored: (queues: ReadonlySet<string>, inTransaction: boolean) => Effect.Effect<void, DatabaseError>

    /** Calls back when another process tells of a queue's work, before anyone is woken; of no queue when any may be meant. */
    readonly onHint: (listener: (queue: string | undefined) => void) => void
  }
>() {
  static readonly layer: Layer.Layer<Notifier, never, Database | Wakeups | Listener> = Layer.scoped(
    Notifier,
    Effect.gen(function* () {
      const { schema, sql } = yield* Database
      const wakeups = yield* Wakeups
      const listener = yield* Listener
      const outgoing = yield* Mailbox.sliding<string>(1024)
      const budgets = new Map<string, Budget.Budget>()
      const budgetOf = (queue: string) => {
        const known = budgets.get(queue) ?? Budget.make(budget)
        budgets.set(queue, known)
        return known
      }
      /** Queues whose hint travels with a statement that is under way. */
      const hinted = new Set<string>()
      const listeners: Array<(queue: string | undefined) => void> = []

      const notify = (queues: ReadonlyArray<string>) =>
        mapErrors(
          Effect.asVoid(sql`select pg_notify(${channel(schema)}, queue) from unnest(${queues}::text[]) as queue`)
        )

      // Who has none left waits for the next, and what comes meanwhile is folded in.
      const send = Effect.gen(function* () {
        const first = yield* Mailbox.take(outgoing)
        yield* Effect.sleep(budgetOf(first).wait(yield* Clock.currentTimeMillis))
        const queues = new Set([first, ...(yield* Mailbox.takeAll(outgoing))])
        const now = yield* Clock.currentTimeMillis
        for (const queue of queues) budgetOf(queue).spend(1, now)
        yield* notify([...queues])
      }).pipe(Effect.catchAll((error) => Effect.logDebug("other pods were not told of new work; they poll", error)))
      const sending = single({
        name: "notifier",
        schedule: onEvent(Effect.void),
        runAtStart: true,
        run: send
      })
      yield* Effect.forkScoped(repeatLoop(sending))

      // The payload is what another process said; one that is no queue of ours wakes nobody. A process that only stores jobs
      // does not listen at all: it would be woken by each of its own.
      const hear = Effect.fnUntraced(function* (heard: Mailbox.Dequeue<Heard>) {
        const message = yield* Mailbox.take(heard)
        const queue = message._tag === "Notified" ? message.payload : undefined
        for (const listener of listeners) listener(queue)
        yield* queue === undefined ? wakeups.wakeAll : wakeups.wake(queue)
      })
      yield* wakeups.awaited.pipe(
        Effect.zipRight(listener.hear(channel(schema))),
        Effect.flatMap((heard) =>
          repeatLoop(single({ name: "wakeups", schedule: onEvent(Effect.void), runAtStart: true, run: hear(heard) }))
        ),
        Effect.forkScoped
      )

      return {
        onHint: (listener) => void listeners.push(listener),
        hint: (queue, now) => {
          const left = budgetOf(queue)
          if (left.wait(now) > 0) return null
          left.spend(1, now)
          hinted.add(queue)
          return channel(schema)
        },
        stored: (queues, inTransaction) =>
          Effect.gen(function* () {
            if (inTransaction) return yield* notify([...queues])
            for (const queue of queues) {
              yield* wakeups.wake(queue)
              if (!hinted.delete(queue)) Mailbox.unsafeOffer(outgoing, queue)
            }
          })
      }
    })
  )
}

import { randomBytes } from "node:crypto"
import { Clock, Context, Effect, Layer, Queue as Mailbox, Runtime } from "effect"
import { repeated } from "../core/Loop.js"
import { onEvent } from "../core/LoopSchedule.js"
import * as TokenBucket from "../core/TokenBucket.js"
import { Database } from "../database/Database.js"
import { type DatabaseError, mapErrors } from "../database/DatabaseError.js"
import { Listener, type ListenerEvent } from "../database/Listener.js"
import { Wakeups, workChannel } from "./Wakeups.js"

// Announces that a queue has work: in this process directly, to other processes by NOTIFY on one channel with the queue
// name as payload. The notification is only a hint. A commit with NOTIFY takes a lock shared by the whole PostgreSQL
// server, so each queue has a budget: occasional jobs are announced immediately, bursts are coalesced into fewer
// notifications. A process adds its own tag to the queue name and ignores notifications with that tag, because it has
// woken its workers already. A caller's transaction is announced without a tag: its jobs are visible after the commit,
// which only the notification announces.

/** A burst of 10 notifications per queue, then one every 10 milliseconds. */
const budget = { capacity: 10, refill: 0.1 }

/** Notifies the workers of a queue that it has work. */
export class Notifier extends Context.Tag("nightshift/queue/Notifier")<
  Notifier,
  {
    /** Returns the notification that an insert for this queue should send, or null if the budget is used up. */
    readonly hint: (queue: string, now: number) => string | null

    /**
     * Returns the tag for a statement that finds the queues itself and notifies each with this tag, or null if the
     * budget is used up.
     */
    readonly hintOfStatement: (now: number) => string | null

    /**
     * Announces stored jobs. In a caller's transaction the NOTIFY is part of it and is sent at commit. With `isHinted`,
     * the statement has sent the notifications.
     */
    readonly stored: (
      queues: ReadonlySet<string>,
      inTransaction: boolean,
      isHinted?: boolean
    ) => Effect.Effect<void, DatabaseError>

    /** Announces jobs that a SQL function has stored, about which this process knows only their queues. */
    readonly storedBySql: (queues: ReadonlySet<string>) => Effect.Effect<void, DatabaseError>

    /**
     * Calls the listener when another process announces work, before workers are woken. The queue is undefined if
     * notifications may have been missed.
     */
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
      const budgets = new Map<string, TokenBucket.TokenBucket>()
      const budgetOf = (queue: string) => {
        const known = budgets.get(queue) ?? TokenBucket.make(budget)
        budgets.set(queue, known)
        return known
      }
      const statementBudget = TokenBucket.make(budget)
      const maySpend = (left: TokenBucket.TokenBucket, now: number) => {
        if (left.wait(now) > 0) return false
        left.spend(1, now)
        return true
      }
      /** Queues whose notification is part of a running statement. */
      const hinted = new Set<string>()
      const listeners: Array<(queue: string | undefined) => void> = []

      const tag = randomBytes(6).toString("hex")
      const tagged = (queue: string) => `${queue} ${tag}`

      const notify = (payloads: ReadonlyArray<string>) =>
        mapErrors(
          Effect.asVoid(
            sql`select pg_notify(${workChannel(schema)}, payload) from unnest(${payloads}::text[]) as payload`
          )
        )

      // A queue without budget waits for the next token; notifications that arrive in the meantime are coalesced.
      const send = Effect.gen(function* () {
        const first = yield* Mailbox.take(outgoing)
        yield* Effect.sleep(budgetOf(first).wait(yield* Clock.currentTimeMillis))
        const queues = new Set([first, ...(yield* Mailbox.takeAll(outgoing))])
        const now = yield* Clock.currentTimeMillis
        for (const queue of queues) budgetOf(queue).spend(1, now)
        yield* notify([...queues].map(tagged))
      }).pipe(
        Effect.catchAll((error) =>
          Effect.logDebug("could not notify other processes of new work; they find it by polling", error)
        )
      )
      yield* Effect.forkScoped(
        repeated({ name: "notifier", schedule: onEvent(Effect.void), runAtStart: true, run: send })
      )

      // The payload comes from another process; an unknown queue name wakes no worker. A process that only enqueues
      // does not listen: it would be woken by each of its own jobs.
      const run = Runtime.runFork(yield* Effect.runtime<never>())
      const receive = (message: ListenerEvent) => {
        const [queue, sender] = message._tag === "Notified" ? message.payload.split(" ") : []
        if (sender === tag) return
        for (const listener of listeners) listener(queue)
        if (queue === undefined) run(wakeups.wakeAll)
        else wakeups.unsafeWake(queue)
      }
      yield* wakeups.awaited.pipe(
        Effect.zipRight(listener.onMessage(workChannel(schema), receive)),
        Effect.zipRight(Effect.never),
        Effect.scoped,
        Effect.forkScoped
      )

      const stored: typeof Notifier.Service.stored = (queues, inTransaction, isHinted = false) =>
        Effect.gen(function* () {
          if (inTransaction) return yield* notify([...queues])
          for (const queue of queues) {
            yield* wakeups.wake(queue)
            if (!isHinted && !hinted.delete(queue)) Mailbox.unsafeOffer(outgoing, queue)
          }
        })

      return {
        onHint: (listener) => void listeners.push(listener),
        hint: (queue, now) => {
          if (!maySpend(budgetOf(queue), now)) return null
          hinted.add(queue)
          return tagged(queue)
        },
        hintOfStatement: (now) => (maySpend(statementBudget, now) ? tag : null),
        stored,
        storedBySql: (queues) =>
          Effect.suspend(() => {
            for (const queue of queues) for (const listener of listeners) listener(queue)
            return stored(queues, false)
          })
      }
    })
  )
}

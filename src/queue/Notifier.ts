import { Clock, Context, Effect, Layer, Queue as Mailbox, Stream } from "effect"
import { Database } from "../database/Database.js"
import { type DatabaseError, mapErrors } from "../database/DatabaseError.js"
import { Listener } from "../database/Listener.js"
import { Wakeups } from "./Wakeups.js"

// Telling that a queue has work: this process directly, other processes by NOTIFY on one channel whose payload is the
// queue's name. It is a hint. A notifying commit takes a lock that all of PostgreSQL shares, so hints are debounced: the
// first of a burst goes out at once, the rest are folded into one a moment later.

export const channel = (schema: string): string => `${schema}_work`

const debounceMillis = 20

/** Tells whoever serves a queue that it has work. */
export class Notifier extends Context.Tag("nightshift/queue/Notifier")<
  Notifier,
  {
    /** Jobs of these queues were stored. In a caller's transaction the hint is part of it and goes out with its commit. */
    readonly stored: (queues: ReadonlySet<string>, inTransaction: boolean) => Effect.Effect<void, DatabaseError>
  }
>() {
  static readonly layer: Layer.Layer<Notifier, never, Database | Wakeups | Listener> = Layer.scoped(
    Notifier,
    Effect.gen(function* () {
      const { schema, sql } = yield* Database
      const wakeups = yield* Wakeups
      const listener = yield* Listener
      const outgoing = yield* Mailbox.sliding<string>(1024)
      const lastSent = new Map<string, number>()

      const notify = (queues: ReadonlyArray<string>) =>
        mapErrors(
          Effect.asVoid(sql`select pg_notify(${channel(schema)}, queue) from unnest(${queues}::text[]) as queue`)
        )

      // What waits while one notification is under way is folded into the next.
      yield* Mailbox.takeBetween(outgoing, 1, 1024).pipe(
        Effect.flatMap((queues) => notify([...new Set(queues)])),
        Effect.catchAll((error) => Effect.logDebug("other pods were not told of new work; they poll", error)),
        Effect.zipRight(Effect.sleep(debounceMillis)),
        Effect.forever,
        Effect.forkScoped
      )

      // The payload is what another process said; one that is no queue of ours wakes nobody.
      const heard = yield* listener.hear(channel(schema))
      yield* Stream.fromQueue(heard).pipe(
        Stream.runForEach((message) => (message._tag === "Notified" ? wakeups.wake(message.payload) : wakeups.wakeAll)),
        Effect.forkScoped
      )

      return {
        stored: (queues, inTransaction) =>
          Effect.gen(function* () {
            if (inTransaction) return yield* notify([...queues])
            const now = yield* Clock.currentTimeMillis
            for (const queue of queues) {
              yield* wakeups.wake(queue)
              if (now - (lastSent.get(queue) ?? 0) < debounceMillis / 4) continue
              lastSent.set(queue, now)
              Mailbox.unsafeOffer(outgoing, queue)
            }
          })
      }
    })
  )
}

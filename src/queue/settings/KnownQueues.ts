import { Clock, Context, Duration, Effect, Layer, Stream } from "effect"
import { Database } from "../../database/Database.js"
import { type DatabaseError, mapErrors } from "../../database/DatabaseError.js"
import { Listener } from "../../database/Listener.js"
import { named } from "../../database/StatementTimes.js"
import * as ArrayText from "../ArrayText.js"
import { Wakeups } from "../Wakeups.js"
import type { QueueRow } from "./QueueRow.js"
import * as QueueSql from "./QueueSql.js"

// What a process knows of its queues' rows, so that the ways that jobs take thousands of times a second need not ask. It is
// told of changes by NOTIFY, and asks again when what it knows is old. Nothing strict rests on it: a claim looks at the row
// itself, and goes by what stands there.

/** On which changed queues are named. */
export const channel = (schema: string): string => `${schema}_queue`

interface Known {
  /** Absent: the queue has no row. */
  readonly row: QueueRow | undefined
  readonly readAt: number
}

export class KnownQueues extends Context.Tag("nightshift/queue/KnownQueues")<
  KnownQueues,
  {
    /** The row as it was last read, however long ago. */
    readonly peek: (name: string) => QueueRow | undefined
    /** The row, read again when what is known is older than this; none when the queue has no row. */
    readonly get: (name: string, atMost: Duration.DurationInput) => Effect.Effect<QueueRow | undefined, DatabaseError>
    /** The row has changed: whoever wants it reads it again. */
    readonly forget: (name: string) => void
    /** The row was read by the way. */
    readonly saw: (row: QueueRow, now: number) => void
  }
>() {
  static readonly layer: Layer.Layer<KnownQueues, never, Database | Listener | Wakeups> = Layer.scoped(
    KnownQueues,
    Effect.gen(function* () {
      const { schema, sql } = yield* Database
      const wakeups = yield* Wakeups
      const statements = named("queue", QueueSql.make(schema))
      const rows = new Map<string, Known>()
      const stale = new Set<string>()
      let forgotten = 0

      const forget = (name: string) => {
        forgotten += 1
        stale.add(name)
      }

      const read = (name: string) =>
        Effect.gen(function* () {
          const before = forgotten
          const now = yield* Clock.currentTimeMillis
          const found = yield* mapErrors(
            sql.unsafe<QueueSql.QueueColumns>(statements.some, [ArrayText.ofPlain([name])])
          )
          const row = found[0] === undefined ? undefined : QueueSql.toRow(found[0])
          rows.set(name, { row, readAt: now })
          // Changed while it was on its way to us: what came may be the row before.
          if (before === forgotten) stale.delete(name)
          return row
        })

      const heard = yield* (yield* Listener).hear(channel(schema))
      yield* Stream.fromQueue(heard).pipe(
        Stream.runForEach((message) => {
          if (message._tag === "Notified") {
            forget(message.payload)
            return wakeups.wake(message.payload)
          }
          for (const name of rows.keys()) forget(name)
          return Effect.void
        }),
        Effect.forkScoped
      )

      return {
        peek: (name) => rows.get(name)?.row,
        get: (name, atMost) =>
          Effect.clockWith((clock) => {
            const known = rows.get(name)
            const age = clock.unsafeCurrentTimeMillis() - (known?.readAt ?? Number.NEGATIVE_INFINITY)
            return known === undefined || stale.has(name) || age > Duration.toMillis(atMost)
              ? read(name)
              : Effect.succeed(known.row)
          }),
        forget,
        saw: (row, now) => void rows.set(row.name, { row, readAt: now })
      }
    })
  )
}

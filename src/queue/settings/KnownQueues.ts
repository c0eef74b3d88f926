import { Clock, Context, Duration, Effect, Layer, Stream } from "effect"
import * as Together from "../../core/Together.js"
import { Database } from "../../database/Database.js"
import { type DatabaseError, mapErrors } from "../../database/DatabaseError.js"
import { Listener } from "../../database/Listener.js"
import { named } from "../../database/Statements.js"
import * as SqlArrays from "../SqlArrays.js"
import { Wakeups } from "../Wakeups.js"
import type { QueueRow } from "./QueueRow.js"
import * as QueueSql from "./QueueSql.js"

// Cache of queue rows, so that hot paths need not query them. NOTIFY invalidates changed rows, and callers set a
// maximum age. Correctness does not depend on it: a claim checks the row itself.

/** NOTIFY channel for changed queues. */
export const channel = (schema: string): string => `${schema}_queue`

/** Rows read by one query. */
const maxRead = 256

interface Known {
  readonly row: QueueRow | undefined
  readonly readAt: number
}

export class KnownQueues extends Context.Tag("nightshift/queue/KnownQueues")<
  KnownQueues,
  {
    /** The row as last read, however old. */
    readonly peek: (name: string) => QueueRow | undefined
    /** The row, read again if the cached one is older than `atMost`; undefined if the queue has no row. */
    readonly get: (name: string, atMost: Duration.DurationInput) => Effect.Effect<QueueRow | undefined, DatabaseError>
    /** The same, not inside a transaction of the caller: queues that are read at the same time share a query. */
    readonly getApart: (
      name: string,
      atMost: Duration.DurationInput
    ) => Effect.Effect<QueueRow | undefined, DatabaseError>
    readonly forget: (name: string) => void
    /** Stores a row that another statement has read. */
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

      const read = (names: ReadonlyArray<string>) =>
        Effect.gen(function* () {
          const before = forgotten
          const now = yield* Clock.currentTimeMillis
          const found = yield* mapErrors(sql.unsafe<QueueSql.QueueColumns>(statements.some, [SqlArrays.ofTexts(names)]))
          const byName = new Map(found.map((columns) => [columns.name, QueueSql.toRow(columns)]))
          for (const name of names) {
            rows.set(name, { row: byName.get(name), readAt: now })
            // If a row was invalidated during the read, the result may be the old one, so it stays stale.
            if (before === forgotten) stale.delete(name)
          }
        })

      const readApart = yield* Together.make<string, void, DatabaseError>({
        maxWeight: maxRead,
        many: (names) =>
          Effect.as(
            read(names),
            Array.from(names, () => undefined)
          )
      })

      const getBy =
        (readOne: (name: string) => Effect.Effect<void, DatabaseError>) =>
        (name: string, atMost: Duration.DurationInput) =>
          Effect.clockWith((clock) => {
            const known = rows.get(name)
            const age = clock.unsafeCurrentTimeMillis() - (known?.readAt ?? Number.NEGATIVE_INFINITY)
            return known === undefined || stale.has(name) || age > Duration.toMillis(atMost)
              ? Effect.map(readOne(name), () => rows.get(name)?.row)
              : Effect.succeed(known.row)
          })

      const messages = yield* (yield* Listener).subscribe(channel(schema))
      yield* Stream.fromQueue(messages).pipe(
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
        get: getBy((name) => read([name])),
        getApart: getBy(readApart),
        forget,
        saw: (row, now) => void rows.set(row.name, { row, readAt: now })
      }
    })
  )
}

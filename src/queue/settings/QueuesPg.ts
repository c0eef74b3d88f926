import { Clock, Effect, Layer } from "effect"
import { Database } from "../../database/Database.js"
import { mapErrors } from "../../database/DatabaseError.js"
import { Signals } from "../../database/Signals.js"
import { Tally } from "../../telemetry/Tally.js"
import * as SqlArrays from "../SqlArrays.js"
import { Wakeups } from "../Wakeups.js"
import { channel, KnownQueues } from "./KnownQueues.js"
import * as QueuePatch from "./QueuePatch.js"
import { toSettings } from "./QueueRow.js"
import { QueueNotFound, Queues, settingsTopic } from "./QueueSettings.js"
import * as QueueSql from "./QueueSql.js"

const make = Effect.gen(function* () {
  const { schema, sql, transaction } = yield* Database
  const known = yield* KnownQueues
  const wakeups = yield* Wakeups
  const tally = yield* Tally
  const signals = yield* Signals
  const clock = yield* Effect.clock
  const statements = QueueSql.make(schema)

  const declare = (names: ReadonlyArray<string>, now: number) =>
    mapErrors(sql.unsafe(statements.declare, [SqlArrays.ofTexts([...new Set(names)]), now]))

  const change: typeof Queues.Service.change = (name, patch) =>
    Effect.gen(function* () {
      // Before the row is read: no claim uses the old settings after the commit.
      yield* mapErrors(sql.unsafe(statements.exclusiveLock, [name]))
      const rows = yield* mapErrors(sql.unsafe<QueueSql.QueueColumns>(statements.locked, [name]))
      const now = yield* Clock.currentTimeMillis
      const before = rows[0] === undefined ? yield* QueuePatch.ahead(name, patch) : QueueSql.toRow(rows[0])
      const after = yield* QueuePatch.apply(before, patch)
      if (rows[0] === undefined) yield* declare([name], now)
      yield* mapErrors(sql.unsafe(statements.write, QueueSql.parameters(after, now)))
      if (before.perKey === undefined && after.perKey !== undefined) {
        yield* mapErrors(sql.unsafe(statements.noteRunning, [name, now]))
      }
      yield* mapErrors(sql`select pg_notify(${channel(schema)}, ${name})`)
      return { before: toSettings(before, now), after: toSettings(after, now) }
    }).pipe(
      transaction,
      // In a caller's transaction this runs before the commit; the notification at commit invalidates the row again.
      Effect.tap(() => {
        known.forget(name)
        return Effect.zipRight(wakeups.wake(name), signals.publish(settingsTopic, name))
      })
    )

  return Queues.of({
    declare: (names) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        tally.prefer({ queues: names })
        return Effect.asVoid(declare(names, now))
      }),
    all: Effect.gen(function* () {
      const rows = (yield* mapErrors(sql.unsafe<QueueSql.QueueColumns>(statements.all))).map(QueueSql.toRow)
      const now = yield* Clock.currentTimeMillis
      return rows.map((row) => toSettings(row, now))
    }),
    get: (name) =>
      Effect.gen(function* () {
        const rows = yield* mapErrors(sql.unsafe<QueueSql.QueueColumns>(statements.some, [SqlArrays.ofTexts([name])]))
        const now = yield* Clock.currentTimeMillis
        return rows[0] === undefined ? yield* new QueueNotFound({ name }) : toSettings(QueueSql.toRow(rows[0]), now)
      }),
    change,
    known: (name) => {
      const row = known.peek(name)
      return row === undefined ? undefined : toSettings(row, clock.unsafeCurrentTimeMillis())
    }
  })
})

export const layer: Layer.Layer<Queues, never, Database | KnownQueues | Signals | Wakeups> = Layer.effect(Queues, make)

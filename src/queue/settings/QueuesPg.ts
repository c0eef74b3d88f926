import { Clock, Effect, Either, FiberRef, Layer } from "effect"
import * as CellTag from "../../core/CellTag.js"
import { Database } from "../../database/Database.js"
import { mapErrors } from "../../database/DatabaseError.js"
import { Hints } from "../../database/Hints.js"
import { Tally } from "../../telemetry/Tally.js"
import * as SqlArrays from "../SqlArrays.js"
import { Wakeups } from "../Wakeups.js"
import { channel, KnownQueues } from "./KnownQueues.js"
import * as QueuePatch from "./QueuePatch.js"
import { type QueueRow, toSettings } from "./QueueRow.js"
import { QueueNotFound, type QueueSettingsPatch, Queues, settingsTopic } from "./QueueSettings.js"
import * as QueueSql from "./QueueSql.js"
import * as RateShare from "./RateShare.js"

const make = Effect.gen(function* () {
  const { schema, sql, transaction } = yield* Database
  const known = yield* KnownQueues
  const wakeups = yield* Wakeups
  const tally = yield* Tally
  const hints = yield* Hints
  const clock = yield* Effect.clock
  const cell = yield* FiberRef.get(CellTag.current)
  const statements = QueueSql.make(schema)

  const declare = (names: ReadonlyArray<string>, now: number) =>
    mapErrors(sql.unsafe(statements.declare, [SqlArrays.ofTexts([...new Set(names)]), now]))

  /** Reads and replaces the row of a queue. A queue without a row is created with the result. */
  const replace = <A extends { readonly before: QueueRow; readonly after: QueueRow }, E>(
    name: string,
    decide: (row: QueueRow | undefined) => Either.Either<A, E>
  ) =>
    Effect.gen(function* () {
      // Before the row is read: no claim uses the old settings after the commit.
      yield* mapErrors(sql.unsafe(statements.exclusiveLock, [name]))
      const rows = yield* mapErrors(sql.unsafe<QueueSql.QueueColumns>(statements.locked, [name]))
      const now = yield* Clock.currentTimeMillis
      const decided = yield* decide(rows[0] === undefined ? undefined : QueueSql.toRow(rows[0]))
      const { after, before } = decided
      if (rows[0] === undefined) yield* declare([name], now)
      yield* mapErrors(sql.unsafe(statements.write, QueueSql.parameters(after, now)))
      if (before.perKey === undefined && after.perKey !== undefined) {
        yield* mapErrors(sql.unsafe(statements.noteRunning, [name, now]))
      }
      yield* mapErrors(sql`select pg_notify(${channel(schema)}, ${name})`)
      return { decided, now }
    }).pipe(
      transaction,
      // In a caller's transaction this runs before the commit; the notification at commit invalidates the row again.
      Effect.tap(() => {
        known.forget(name)
        return Effect.zipRight(wakeups.wake(name), hints.publish(settingsTopic, name))
      })
    )

  const change: typeof Queues.Service.change = (name, patch) =>
    Effect.map(
      replace(name, (row) =>
        Either.flatMap(row === undefined ? QueuePatch.ahead(name, patch) : Either.right(row), (before) =>
          Either.map(QueuePatch.apply(before, patch), (after) => ({ before, after }))
        )
      ),
      ({ decided: { after, before }, now }) => ({ before: toSettings(before, now), after: toSettings(after, now) })
    )

  const rowOf = (name: string) =>
    Effect.flatMap(
      mapErrors(sql.unsafe<QueueSql.QueueColumns>(statements.some, [SqlArrays.ofTexts([name])])),
      ([row]) => (row === undefined ? new QueueNotFound({ name }) : Effect.succeed(QueueSql.toRow(row)))
    )

  const declaredIn = (name: string, patch: QueueSettingsPatch) => (row: QueueRow | undefined) =>
    Either.flatMap(
      Either.fromNullable(row, () => new QueueNotFound({ name })),
      (before) => Either.map(QueuePatch.declare(before, patch), (result) => ({ ...result, before }))
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
        const row = yield* rowOf(name)
        return toSettings(row, yield* Clock.currentTimeMillis)
      }),
    change,
    declareSettings: (name, whole) =>
      Effect.gen(function* () {
        const cells = cell?.divided.get(name) ?? 1
        const settings = RateShare.inPatch(whole, cells)
        if (settings !== whole && whole.rate && settings.rate)
          yield* Effect.logInfo(
            `queue ${name}: the declared rate of ${RateShare.text(whole.rate)} is divided over ${cells} cells: ${RateShare.text(settings.rate)} in this one`
          )
        // Compares without a lock first: most starts declare what is already declared, and a change blocks all claims.
        const seen = yield* declaredIn(name, settings)(yield* rowOf(name))
        const { kept, set } =
          seen.after === seen.before ? seen : (yield* replace(name, declaredIn(name, settings))).decided
        return { set, kept }
      }),
    known: (name) => {
      const row = known.peek(name)
      return row === undefined ? undefined : toSettings(row, clock.unsafeCurrentTimeMillis())
    }
  })
})

export const layer: Layer.Layer<Queues, never, Database | KnownQueues | Hints | Wakeups> = Layer.effect(Queues, make)

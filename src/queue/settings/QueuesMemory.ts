import { Clock, Context, Effect, Either, Layer } from "effect"
import { Hints } from "../../database/Hints.js"
import { Tally } from "../../telemetry/Tally.js"
import { Wakeups } from "../Wakeups.js"
import * as QueuePatch from "./QueuePatch.js"
import { fresh, type QueueRow, toSettings, uniform } from "./QueueRow.js"
import { QueueNotFound, Queues, settingsTopic } from "./QueueSettings.js"
import { type Decide, decide, faultOf, Routes } from "./Routes.js"

export class QueueTable extends Context.Tag("nightshift/queue/QueueTableMemory")<
  QueueTable,
  {
    readonly rows: ReadonlyMap<string, QueueRow>
    readonly put: (row: QueueRow) => void
    /** End of each key's cool-down, by queue. */
    readonly cooling: Map<string, Map<string, number>>
    readonly lastKey: Map<string, string>
  }
>() {}

export const table: Layer.Layer<QueueTable> = Layer.sync(QueueTable, () => {
  const rows = new Map<string, QueueRow>()
  return {
    rows,
    put: (row) => void rows.set(row.name, uniform(row)),
    cooling: new Map(),
    lastKey: new Map()
  }
})

const byName = (left: QueueRow, right: QueueRow) => (left.name < right.name ? -1 : 1)

const make = Effect.gen(function* () {
  const { put, rows } = yield* QueueTable
  const { wake } = yield* Wakeups
  const tally = yield* Tally
  const hints = yield* Hints
  const clock = yield* Effect.clock

  const found = (name: string) => Either.fromNullable(rows.get(name), () => new QueueNotFound({ name }))

  return Queues.of({
    declare: (names) =>
      Effect.sync(() => {
        tally.prefer({ queues: names })
        for (const name of names) if (!rows.has(name)) put(fresh(name))
      }),
    all: Effect.map(Clock.currentTimeMillis, (now) =>
      [...rows.values()].sort(byName).map((row) => toSettings(row, now))
    ),
    get: (name) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => Either.map(found(name), (row) => toSettings(row, now))),
    change: (name, patch) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const before = rows.get(name) ?? (yield* QueuePatch.ahead(name, patch))
        const after = yield* QueuePatch.apply(before, patch)
        put(after)
        yield* wake(name)
        yield* hints.publish(settingsTopic, name)
        return { before: toSettings(before, now), after: toSettings(after, now) }
      }),
    declareSettings: (name, settings) =>
      Effect.gen(function* () {
        const before = yield* found(name)
        const { after, kept, set } = yield* QueuePatch.declare(before, settings)
        put(after)
        if (after !== before) yield* Effect.zipRight(wake(name), hints.publish(settingsTopic, name))
        return { set, kept }
      }),
    known: (name) => {
      const row = rows.get(name)
      return row === undefined ? undefined : toSettings(row, clock.unsafeCurrentTimeMillis())
    }
  })
})

export const layer: Layer.Layer<Queues, never, QueueTable | Hints | Wakeups> = Layer.effect(Queues, make)

export const routes: Layer.Layer<Routes> = Layer.sync(Routes, () => {
  const known = new Map<string, string>()
  const all = () =>
    [...known].map(([prefix, queue]) => ({ prefix, queue })).sort((a, b) => (a.prefix < b.prefix ? -1 : 1))
  let current: Decide = decide([])
  return {
    register: (declared) =>
      Effect.suspend(() => {
        const fault = faultOf(declared)
        if (fault !== undefined) return fault
        for (const [prefix, queue] of Object.entries(declared)) {
          if (queue === null) known.delete(prefix)
          else known.set(prefix, queue)
        }
        current = decide(all())
        return Effect.void
      }),
    all: Effect.sync(all),
    current: Effect.sync(() => current),
    cached: () => current
  }
})

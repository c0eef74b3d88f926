import { Clock, Effect, Either, Layer, Option } from "effect"
import * as Storable from "../core/Storable.js"
import { Database } from "../database/Database.js"
import { Hints } from "../database/Hints.js"
import { ScheduleExists, ScheduleNotFound } from "./ScheduleErrors.js"
import * as ScheduleSql from "./ScheduleSql.js"
import { Schedules, topic } from "./Schedules.js"
import * as Stored from "./StoredSchedule.js"

// Declarations and edits lock the row and then apply the same pure functions as SchedulesMemory. Firing does not read
// first: its update is conditional on the revision, so a caller with an older revision matches no row.

const make = Effect.gen(function* () {
  const database = yield* Database
  const hints = yield* Hints
  const statements = ScheduleSql.make(database)

  const hint = (name: string) => hints.publish(topic, name)

  // An invalid name never exists, and may contain characters that PostgreSQL cannot encode.
  const ifValidName = <A, E>(name: string, query: Effect.Effect<A, E>) =>
    Storable.isPlainName(name) ? query : new ScheduleNotFound({ name })
  const reading = (read: typeof statements.read) => (name: string) =>
    ifValidName(
      name,
      Effect.flatMap(read(name), (row) =>
        Option.isSome(row) && row.value.removedAt === undefined
          ? Effect.succeed(row.value)
          : new ScheduleNotFound({ name })
      )
    )
  const get = reading(statements.read)
  const hold = reading(statements.lock)

  /** Declares one schedule. If several pods start together, one inserts the row and the other pods wait for its lock. */
  const declareOne = (definition: Parameters<typeof Stored.declared>[1]) =>
    database.transaction(
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const fresh = yield* Stored.declared(undefined, definition, now)
        if (fresh !== undefined && (yield* statements.insert(fresh))) {
          yield* hint(definition.name)
          return true
        }
        const row = yield* statements.lock(definition.name)
        const next = yield* Stored.declared(Option.getOrUndefined(row), definition, now)
        if (next === undefined) return false
        yield* statements.replace(next)
        yield* hint(definition.name)
        return true
      })
    )

  return Schedules.of({
    declare: (definitions) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const known = new Map(
          (yield* statements.readAll(definitions.map(({ name }) => name))).map((row) => [row.name, row])
        )
        // Checks without locks first: most starts declare unchanged schedules, and an invalid one must prevent all
        // writes.
        const changes = yield* Either.all(
          definitions.map((definition) => Stored.declared(known.get(definition.name), definition, now))
        )
        const changed = definitions.filter((_, index) => changes[index] !== undefined)
        const written = yield* Effect.filter(changed, declareOne)
        return written.map(({ name }) => name)
      }),

    create: (definition) =>
      database.transaction(
        Effect.gen(function* () {
          const row = yield* Stored.created(definition, "operator", yield* Clock.currentTimeMillis)
          if (!(yield* statements.insert(row))) {
            const existing = yield* statements.lock(row.name)
            if (Option.isNone(existing) || existing.value.removedAt === undefined) {
              return yield* new ScheduleExists({ name: row.name })
            }
            yield* statements.replace({ ...row, fingerprint: existing.value.fingerprint })
            yield* statements.forget(row.name)
          }
          yield* hint(row.name)
          return row
        })
      ),

    edit: (name, edit) =>
      database.transaction(
        Effect.gen(function* () {
          const before = yield* hold(name)
          const after = yield* Stored.edited(before, edit, yield* Clock.currentTimeMillis)
          if (after !== before) yield* Effect.zipRight(statements.replace(after), hint(name))
          return { before, after }
        })
      ),

    remove: (name) =>
      database.transaction(
        Effect.gen(function* () {
          const row = yield* hold(name)
          const after = Stored.removed(row, yield* Clock.currentTimeMillis)
          yield* after === undefined ? statements.erase(name) : statements.replace(after)
          yield* hint(name)
          return row
        })
      ),

    erase: (subject, act) =>
      database.transaction(
        Effect.gen(function* () {
          const found = yield* statements.ofSubject(subject)
          if (act === "count") return found.length
          for (const row of found) {
            const after = Stored.erased(row, yield* Clock.currentTimeMillis)
            yield* after === undefined ? statements.erase(row.name) : statements.replace(after)
            yield* hint(row.name)
          }
          return found.length
        })
      ),

    get,
    hold,
    list: ({ after = "", limit }) => statements.page(after, limit),
    due: (limit, after) => Effect.flatMap(Clock.currentTimeMillis, (now) => statements.due(now, limit, after)),
    nextInstant: statements.nextInstant,
    advance: (read, nextFireAt) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => statements.advance(read, nextFireAt, now)),
    note: (name, outcomes) => (outcomes.length === 0 ? Effect.void : statements.note(name, outcomes)),
    history: (name) =>
      ifValidName(
        name,
        Effect.flatMap(statements.history(name), (history) =>
          Option.match(history, { onNone: () => new ScheduleNotFound({ name }), onSome: Effect.succeed })
        )
      ),
    pauseBroken: (read, reason) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => statements.pauseBroken(read, reason, now)),
    onChange: (listener) => hints.subscribe(topic, () => listener())
  })
})

export const layer: Layer.Layer<Schedules, never, Database | Hints> = Layer.effect(Schedules, make)

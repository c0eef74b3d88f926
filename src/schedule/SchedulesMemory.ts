import { Clock, Context, Effect, Either, Layer, Option } from "effect"
import * as Rollback from "../core/Rollback.js"
import { Hints } from "../database/Hints.js"
import { ScheduleExists, ScheduleNotFound } from "./ScheduleErrors.js"
import { Schedules, topic } from "./Schedules.js"
import * as Stored from "./StoredSchedule.js"
import { lastFireAndSkip, remembered, type TickOutcome } from "./TickOutcome.js"

type Row = Stored.ScheduleRow

/** Registers how to take back a write if its transaction fails. */
type Remember = (undo: () => void) => void

/** Runs a change, as one operation of the fiber. */
const step = <A>(act: (now: number, remember: Remember) => A): Effect.Effect<A> =>
  Effect.withFiberRuntime((fiber) => {
    const now = Context.get(fiber.currentDefaultServices, Clock.Clock).unsafeCurrentTimeMillis()
    return Effect.succeed(act(now, (undo) => Rollback.rememberIn(fiber, undo)))
  })

const byName = (a: Pick<Row, "name">, b: Pick<Row, "name">) => Number(a.name > b.name) - Number(a.name < b.name)

type Place = Pick<Row, "name" | "nextFireAt">

/** Schedules without a next fire time come first. */
const dueOrder = (a: Place, b: Place) => (a.nextFireAt ?? 0) - (b.nextFireAt ?? 0) || byName(a, b)

const make = Effect.gen(function* () {
  const hints = yield* Hints
  const rows = new Map<string, Row>()
  const histories = new Map<string, ReadonlyArray<TickOutcome>>()

  const live = () => [...rows.values()].filter(({ removedAt }) => removedAt === undefined)
  const running = () => live().filter(({ paused }) => !paused)
  const find = (name: string) => {
    const row = rows.get(name)
    return row === undefined || row.removedAt !== undefined
      ? Either.left(new ScheduleNotFound({ name }))
      : Either.right(row)
  }

  /** Writes a row. A rollback restores the old row unless it was written again in the meantime. */
  const put = (written: Row, remember: Remember): void => {
    const row = Stored.uniform(written)
    const before = rows.get(row.name)
    rows.set(row.name, row)
    remember(() => {
      if (rows.get(row.name) !== row) return
      if (before === undefined) rows.delete(row.name)
      else rows.set(row.name, before)
    })
  }

  const erase = (name: string, remember: Remember): void => {
    const before = rows.get(name)
    rows.delete(name)
    remember(() => void (before === undefined || rows.has(name) || rows.set(name, before)))
  }

  const putHistory = (name: string, history: ReadonlyArray<TickOutcome>, remember: Remember): void => {
    const before = histories.get(name) ?? []
    histories.set(name, history)
    remember(() => void (histories.get(name) === history && histories.set(name, before)))
  }

  const write = (row: Row) => step((_, remember) => put(row, remember))

  const hint = (name: string) => Effect.orDie(hints.publish(topic, name))

  /** Returns the current row if it has not changed since it was read. */
  const unchanged = ({ name, revision }: Stored.StoredSchedule) => {
    const row = rows.get(name)
    return row?.revision === revision && !row.paused && row.removedAt === undefined ? row : undefined
  }

  return Schedules.of({
    declare: (definitions) =>
      Effect.gen(function* () {
        const next = yield* Either.all(
          yield* step((now) =>
            definitions.map((definition) => Stored.declared(rows.get(definition.name), definition, now))
          )
        )
        const written = next.filter((row) => row !== undefined)
        yield* Effect.forEach(written, (row) => Effect.zipRight(write(row), hint(row.name)), { discard: true })
        return written.map(({ name }) => name)
      }),
    create: (definition) =>
      Effect.gen(function* () {
        const row = yield* yield* step((now) => Stored.created(definition, "operator", now))
        if (Either.isRight(find(row.name))) return yield* new ScheduleExists({ name: row.name })
        yield* step((_, remember) => {
          put({ ...row, fingerprint: rows.get(row.name)?.fingerprint }, remember)
          putHistory(row.name, [], remember)
        })
        yield* hint(row.name)
        return row
      }),
    edit: (name, edit) =>
      Effect.gen(function* () {
        const before = yield* find(name)
        const after = yield* yield* step((now) => Stored.edited(before, edit, now))
        if (after !== before) yield* Effect.zipRight(write(after), hint(name))
        return { before, after }
      }),
    remove: (name) =>
      Effect.gen(function* () {
        const row = yield* find(name)
        yield* step((now, remember) => {
          const after = Stored.removed(row, now)
          if (after === undefined) erase(name, remember)
          else put(after, remember)
        })
        yield* hint(name)
        return row
      }),
    erase: (subject, act) =>
      step((now, remember) => {
        const found = [...rows.values()].filter((row) => row.subject === subject)
        if (act === "erase")
          for (const row of found) {
            const after = Stored.erased(row, now)
            if (after === undefined) erase(row.name, remember)
            else put(after, remember)
          }
        return found
      }).pipe(
        Effect.tap((found) => (act === "erase" ? Effect.forEach(found, ({ name }) => hint(name)) : Effect.void)),
        Effect.map(({ length }) => length)
      ),
    get: (name) => Effect.suspend(() => find(name)),
    hold: (name) => Effect.suspend(() => find(name)),
    list: ({ after = "", limit }) =>
      Effect.sync(() =>
        live()
          .filter(({ name }) => name > after)
          .sort(byName)
          .slice(0, limit)
      ),
    due: (limit, after) =>
      step((now) =>
        running()
          .filter((row) => (row.nextFireAt ?? 0) <= now && (after === undefined || dueOrder(row, after) > 0))
          .sort(dueOrder)
          .slice(0, limit)
      ),
    nextInstant: Effect.sync(() => Option.map(Option.fromNullable(running().sort(dueOrder)[0]), instantOf)),
    advance: (read, nextFireAt) =>
      step((now, remember) => {
        const row = unchanged(read)
        if (row === undefined) return Option.none()
        const next = { ...row, nextFireAt, updatedAt: now, revision: row.revision + 1 }
        put(next, remember)
        return Option.some(next)
      }),
    note: (name, outcomes) =>
      step((_, remember) => {
        const row = rows.get(name)
        if (row === undefined) return
        const { fire, skip } = lastFireAndSkip(outcomes)
        const noted = {
          ...row,
          lastFireAt: fire === undefined ? row.lastFireAt : fire.at,
          lastJobId: fire === undefined ? row.lastJobId : fire.job,
          lastError: fire === undefined ? row.lastError : undefined,
          lastSkipAt: skip === undefined ? row.lastSkipAt : skip.at
        }
        put(noted, remember)
        putHistory(name, remembered(histories.get(name) ?? [], outcomes), remember)
      }),
    history: (name) => Effect.suspend(() => Either.map(find(name), () => histories.get(name) ?? [])),
    pauseBroken: (read, reason) =>
      step((_, remember) => {
        const row = unchanged(read)
        if (row === undefined) return false
        put({ ...row, paused: true, lastError: reason, revision: row.revision + 1 }, remember)
        return true
      }),
    onChange: (listener) => hints.subscribe(topic, () => listener())
  })
})

const instantOf = ({ nextFireAt }: Row) => nextFireAt ?? 0

/** In-memory implementation for deterministic tests. */
export const layer: Layer.Layer<Schedules, never, Hints> = Layer.effect(Schedules, make)

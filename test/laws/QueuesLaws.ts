import { expect } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { DatabaseUnavailable } from "../../src/database/DatabaseError.js"
import * as QueueDeclaration from "../../src/queue/settings/QueueDeclaration.js"
import { type QueueSettingsPatch, Queues } from "../../src/queue/settings/QueueSettings.js"
import type { Law, Line } from "./Line.js"

const declared = (line: Line) => line.queues.declare([line.name])

export const queuesLaws = (law: Law): void => {
  law("a declared queue has the defaults, and declaring it again changes nothing", (line) =>
    Effect.gen(function* () {
      yield* line.queues.declare([line.name, `${line.name}-b`, line.name])
      const fresh = {
        name: line.name,
        maxWorkers: 10,
        paused: false,
        retainDone: undefined,
        retainDead: undefined,
        backoff: { enabled: false, base: Duration.seconds(60), max: Duration.minutes(30) },
        rate: undefined,
        perKey: undefined,
        depthCap: undefined,
        throttledUntil: undefined,
        throttleAttempts: 0,
        revision: 1
      }
      expect(yield* line.queues.get(line.name)).toEqual(fresh)
      const { after } = yield* line.queues.change(line.name, { maxWorkers: 3, paused: true })
      yield* declared(line)
      expect(yield* line.queues.get(line.name)).toEqual(after)
      expect(after).toEqual({ ...fresh, maxWorkers: 3, paused: true, revision: 2 })
    })
  )

  law("an empty declaration declares nothing, and an undeclared queue is unknown", (line) =>
    Effect.gen(function* () {
      yield* line.queues.declare([])
      const missing = { _tag: "QueueNotFound", name: line.name }
      expect(yield* Effect.flip(line.queues.get(line.name))).toMatchObject(missing)
      expect(yield* Effect.flip(line.queues.change(line.name, { maxWorkers: 3 }))).toMatchObject(missing)
      expect(yield* Effect.flip(line.queues.change(line.name, { paused: false }))).toMatchObject(missing)
      expect(line.queues.known(line.name)).toBeUndefined()
    })
  )

  law("an undeclared queue can be paused, and stays paused when it is declared and gets its first job", (line) =>
    Effect.gen(function* () {
      const { after, before } = yield* line.queues.change(line.name, { paused: true })
      expect([before.paused, after.paused]).toEqual([false, true])
      yield* declared(line)
      expect(yield* line.queues.get(line.name)).toEqual(after)
      expect(after).toMatchObject({ maxWorkers: 10, revision: 1 })
      yield* line.put()
      expect(yield* line.claim(1)).toEqual([])
      yield* line.queues.change(line.name, { paused: false })
      expect(yield* line.claim(1)).toHaveLength(1)
      expect(yield* Effect.flip(line.queues.change("a queue", { paused: true }))).toMatchObject({
        _tag: "InvalidSetting",
        field: "name"
      })
    })
  )

  law("all queues are listed by name", (line) =>
    Effect.gen(function* () {
      const names = [`${line.name}.b`, `${line.name}-a`, `${line.name}_C`, `${line.name}A`]
      yield* line.queues.declare(names)
      const all = (yield* line.queues.all).map(({ name }) => name)
      expect(all.filter((name) => names.includes(name))).toEqual(names.toSorted())
    })
  )

  law("a change returns the old and new values, and keeps the fields it does not name", (line) =>
    Effect.gen(function* () {
      yield* declared(line)
      const patch: QueueSettingsPatch = {
        maxWorkers: 0,
        retainDone: Duration.hours(1),
        retainDead: Duration.days(365),
        backoff: { enabled: true, max: Duration.minutes(2) },
        rate: { jobs: 5, per: Duration.seconds(1) },
        perKey: { concurrency: 1, order: "strict" },
        depthCap: 7
      }
      const first = yield* line.queues.change(line.name, patch)
      expect(first.before).toMatchObject({ maxWorkers: 10, revision: 1 })
      expect(first.after).toEqual({
        ...first.before,
        ...patch,
        backoff: { enabled: true, base: Duration.seconds(60), max: Duration.minutes(2) },
        revision: 2
      })
      const second = yield* line.queues.change(line.name, { paused: true })
      expect(second).toEqual({ before: first.after, after: { ...first.after, paused: true, revision: 3 } })
      const nothing = { retainDone: null, retainDead: null, rate: null, perKey: null, depthCap: null }
      const third = yield* line.queues.change(line.name, { ...nothing, backoff: { enabled: false } })
      expect(third.after).toMatchObject({ maxWorkers: 0, paused: true, revision: 4 })
      expect([third.after.retainDone, third.after.rate, third.after.perKey, third.after.depthCap]).toEqual([
        undefined,
        undefined,
        undefined,
        undefined
      ])
      expect(yield* line.queues.get(line.name)).toEqual(third.after)
    })
  )

  law("an invalid change is refused with the field, and changes nothing", (line) =>
    Effect.gen(function* () {
      yield* declared(line)
      const refused: ReadonlyArray<readonly [patch: QueueSettingsPatch, field: string]> = [
        [{ maxWorkers: -1 }, "maxWorkers"],
        [{ maxWorkers: 1.5 }, "maxWorkers"],
        [{ maxWorkers: Number.NaN }, "maxWorkers"],
        [{ retainDone: Duration.infinity }, "retainDone"],
        [{ retainDead: Duration.days(40_000) }, "retainDead"],
        [{ backoff: { base: Duration.zero } }, "backoff.base"],
        [{ backoff: { base: Duration.hours(1) } }, "backoff.max"],
        [{ rate: { jobs: 0, per: Duration.seconds(1) } }, "rate.jobs"],
        [{ rate: { jobs: 1, per: Duration.zero } }, "rate.per"],
        [{ perKey: { concurrency: 0, order: "none" } }, "perKey.concurrency"],
        [{ perKey: { concurrency: 2, order: "serial" } }, "perKey.concurrency"],
        [{ perKey: { order: "none" } as never }, "perKey.concurrency"],
        [{ perKey: { concurrency: 2, order: "fifo" as never } }, "perKey.order"],
        [{ rate: { per: Duration.seconds(1) } as never }, "rate.jobs"],
        [{ depthCap: 0 }, "depthCap"]
      ]
      for (const [patch, field] of refused) {
        const error = yield* Effect.flip(line.queues.change(line.name, { paused: true, ...patch }))
        expect(error).toMatchObject({ _tag: "InvalidSetting", field })
        expect(error.message).toMatch(/^[a-zA-Z.]+ must .+\.$/)
      }
      expect(yield* line.queues.get(line.name)).toMatchObject({ paused: false, maxWorkers: 10, revision: 1 })
    })
  )

  law("concurrent changes are all kept", (line) =>
    Effect.gen(function* () {
      yield* declared(line)
      const patches: ReadonlyArray<QueueSettingsPatch> = [{ maxWorkers: 3 }, { paused: true }, { depthCap: 9 }]
      yield* Effect.all(
        patches.map((patch) => line.queues.change(line.name, patch)),
        { concurrency: "unbounded" }
      )
      expect(yield* line.queues.get(line.name)).toMatchObject({
        maxWorkers: 3,
        paused: true,
        depthCap: 9,
        revision: 4
      })
    })
  )

  law(
    "declared settings apply, the last declaration first, and a value of an operator stays until it is the declared one",
    (line) =>
      Effect.gen(function* () {
        yield* declared(line)
        const declare = (settings: QueueSettingsPatch) => line.queues.declareSettings(line.name, settings)
        const rate = (jobs: number) => ({ jobs, per: Duration.minutes(1) })
        expect(yield* declare({ rate: rate(100), depthCap: 5 })).toEqual({ set: ["rate", "depthCap"], kept: [] })
        const first = yield* line.queues.get(line.name)
        expect(first).toMatchObject({ rate: rate(100), depthCap: 5, revision: 2 })
        expect(yield* declare({ rate: rate(100), depthCap: 5 })).toEqual({ set: [], kept: [] })
        expect(yield* declare({})).toEqual({ set: [], kept: [] })
        expect(yield* line.queues.get(line.name)).toEqual(first)
        expect(yield* declare({ rate: rate(200) })).toEqual({ set: ["rate"], kept: [] })
        yield* line.queues.change(line.name, { rate: rate(50) })
        const kept = [{ field: "rate", value: "50/1m", declared: "300/1m" }]
        expect(yield* declare({ rate: rate(300) })).toEqual({ set: [], kept })
        expect(yield* declare({ rate: rate(300) })).toEqual({ set: [], kept })
        expect(yield* line.queues.get(line.name)).toMatchObject({ rate: rate(50), depthCap: 5 })
        yield* line.queues.change(line.name, { rate: rate(300) })
        expect(yield* declare({ rate: null, depthCap: null })).toEqual({ set: ["rate", "depthCap"], kept: [] })
        expect(yield* line.queues.get(line.name)).toMatchObject({ rate: undefined, depthCap: undefined })
      })
  )

  law("a declared fraction of a millisecond is rounded, and is not an operator's at the next start", (line) =>
    Effect.gen(function* () {
      yield* declared(line)
      const declare = (millis: number) =>
        line.queues.declareSettings(line.name, {
          rate: { jobs: 1, per: Duration.millis(millis) },
          retainDone: Duration.millis(millis),
          retainDead: Duration.millis(millis),
          backoff: { base: Duration.millis(millis), max: Duration.millis(millis) }
        })
      const set = ["rate", "retainDone", "retainDead", "backoff"]
      for (const millis of [3_960_000.0000000005, 1_000 / 3, 60_479_999.99999999]) {
        expect(yield* declare(millis)).toEqual({ set, kept: [] })
        expect(yield* declare(millis)).toEqual({ set: [], kept: [] })
        const span = Duration.millis(Math.round(millis))
        expect(yield* line.queues.get(line.name)).toMatchObject({
          rate: { jobs: 1, per: span },
          retainDone: span,
          retainDead: span,
          backoff: { base: span, max: span }
        })
      }
    })
  )

  law("a new queue gets the workers of its first process as its total, even if that start loses a connection", (line) =>
    Effect.gen(function* () {
      let isLost = true
      const queues = {
        ...line.queues,
        declareSettings: (name: string, settings: QueueSettingsPatch) =>
          Effect.suspend(() => {
            if (!isLost) return line.queues.declareSettings(name, settings)
            isLost = false
            return new DatabaseUnavailable({ detail: "cut", nothingWritten: true })
          })
      }
      const start = (workers: number) =>
        Effect.gen(function* () {
          const declare = yield* QueueDeclaration.plan(yield* QueueDeclaration.read({ [line.name]: workers }))
          yield* Effect.retry(declare, { times: 1 })
        }).pipe(Effect.provideService(Queues, queues))
      yield* start(50)
      expect([isLost, (yield* line.queues.get(line.name)).maxWorkers]).toEqual([false, 50])
      yield* start(20)
      expect((yield* line.queues.get(line.name)).maxWorkers).toBe(50)
    })
  )

  law("what an operator set before the first declaration stays, and an invalid declaration changes nothing", (line) =>
    Effect.gen(function* () {
      const declare = (settings: QueueSettingsPatch) => line.queues.declareSettings(line.name, settings)
      expect(yield* Effect.flip(declare({ maxWorkers: 3 }))).toMatchObject({ _tag: "QueueNotFound", name: line.name })
      yield* declared(line)
      yield* line.queues.change(line.name, { perKey: { concurrency: 2, order: "none" } })
      const base = Duration.seconds(5)
      expect(
        yield* declare({ perKey: { concurrency: 1, order: "serial" }, maxWorkers: 3, backoff: { enabled: true, base } })
      ).toEqual({
        set: ["maxWorkers", "backoff"],
        kept: [{ field: "perKey", value: "2 none", declared: "1 serial" }]
      })
      expect(yield* Effect.flip(declare({ maxWorkers: 5, depthCap: 0 }))).toMatchObject({
        _tag: "InvalidSetting",
        field: "depthCap"
      })
      expect(yield* line.queues.get(line.name)).toMatchObject({
        maxWorkers: 3,
        perKey: { concurrency: 2, order: "none" },
        backoff: { enabled: true, base, max: Duration.minutes(30) }
      })
    })
  )
}

import { describe, expect, it } from "@effect/vitest"
import {
  Clock,
  Duration,
  Effect,
  Schedule as EffectSchedule,
  Fiber,
  RuntimeFlags,
  RuntimeFlagsPatch,
  Schema,
  Supervisor,
  TestClock
} from "effect"
import { z } from "zod"
import { job } from "../../src/client/index.js"
import { Workspace } from "../../src/core/Ids.js"
import { idleUntil, repeated } from "../../src/core/Loop.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import * as Schedule from "../../src/schedule/Schedule.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { testShift } from "../../src/testing/index.js"
import { TestShift } from "../../src/testing/TestShift.js"
import * as VirtualClock from "../../src/testing/VirtualClock.js"
import { Storage } from "../../src/uploads/Storage.js"

const Tidy = Job.make("tidy", { payload: Schema.Struct({}) })
const idle = { handlers: [Handler.make(Tidy, () => Effect.succeed("tidy"))] }

interface Cost {
  /** Calls of setTimeout: each costs at least a millisecond of real time. */
  readonly timers: number
  /** Turns of the event loop. */
  readonly turns: number
  /** Operations and starts of fibers, if the test runs in `observed`. */
  readonly operations: number
  readonly fibers: number
  /** CPU time. */
  readonly millis: number
}

class Counter extends Supervisor.AbstractSupervisor<void> {
  override readonly value = Effect.void
  operations = 0
  fibers = 0

  override onEffect(): void {
    this.operations += 1
  }

  override onStart(): void {
    this.fibers += 1
  }
}

const counter = new Counter()

/** Counts the operations of all fibers that this effect starts. */
const observed = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  effect.pipe(
    Effect.withRuntimeFlagsPatch(RuntimeFlagsPatch.enable(RuntimeFlags.OpSupervision)),
    Effect.supervised(counter)
  )

/** Real-time cost of an effect. */
const costOf = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<Cost, E, R> =>
  Effect.suspend(() => {
    const { setImmediate, setTimeout } = globalThis
    let timers = 0
    let turns = 0
    const counted = <F extends typeof setTimeout | typeof setImmediate>(original: F, count: () => void): F =>
      new Proxy(original, {
        apply: (target, self, args) => {
          count()
          return Reflect.apply(target, self, args)
        }
      })
    globalThis.setTimeout = counted(setTimeout, () => (timers += 1))
    globalThis.setImmediate = counted(setImmediate, () => (turns += 1))
    const before = process.cpuUsage()
    const { fibers, operations } = counter
    const restored = Effect.sync(() => Object.assign(globalThis, { setImmediate, setTimeout }))
    return Effect.ensuring(effect, restored).pipe(
      Effect.map(() => {
        const { system, user } = process.cpuUsage(before)
        return {
          timers,
          turns,
          operations: counter.operations - operations,
          fibers: counter.fibers - fibers,
          millis: (user + system) / 1_000
        }
      })
    )
  })

const printed = (what: string, { fibers, millis, operations, timers, turns }: Cost) =>
  Effect.sync(() => {
    const counts = `${turns} turns of the event loop, ${timers} real timers, ${operations} operations, ${fibers} fibers`
    process.stdout.write(`${what}: ${millis.toFixed(1)} ms of CPU, ${counts}\n`)
  })

describe("time in a shift", () => {
  it.effect("costs no real time while nothing is due", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      yield* shift.advance("1 day")
      const day = yield* costOf(shift.advance("1 day"))
      const week = yield* costOf(shift.advance("7 days"))
      const adjusted = yield* costOf(TestClock.adjust("7 days"))
      yield* printed("a day by advance", day)
      yield* printed("a week by advance", week)
      yield* printed("a week by TestClock.adjust", adjusted)
      expect([day.timers, week.timers, adjusted.timers]).toEqual([0, 0, 0])
      // An idle pod wakes a few times a day.
      expect(week.turns).toBeLessThan(7 * 10)
      expect(adjusted.turns).toBeLessThan(7 * 10)
    }).pipe(Effect.provide(TestShift.layer(idle)))
  )

  /** Passes of background loops since the start, by loop. */
  const passes = Effect.map(
    Effect.flatMap(Metrics, ({ render }) => render),
    (text) => {
      const found = text.matchAll(/^nightshift_loop_passes_total\{loop="([^"]+)",[^}]*\} (\d+)$/gm)
      return new Map([...found].map(([, loop = "", count]) => [loop, Number(count)]))
    }
  )

  it.effect("skips the passes of background loops that have nothing to do", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const month = yield* costOf(shift.advance("30 days"))
      yield* printed("a month without jobs", month)
      const counts = yield* passes
      // The first pass of the reaper only watches.
      expect([counts.get("sweeper"), counts.get("reaper"), counts.get("cleanup"), counts.get("batches")]).toEqual([
        1, 2, 1, 1
      ])
      expect([...counts.values()].reduce((sum, count) => sum + count)).toBeLessThan(30)
      expect(month.operations).toBeGreaterThan(100)
      expect(month.operations).toBeLessThan(8_000)
    }).pipe(Effect.provide(TestShift.layer(idle)), observed)
  )

  it.effect("costs one pass of one loop for each job that a schedule fires", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      yield* shift.advance("1 day")
      const before = yield* passes
      const three = yield* costOf(shift.advance("3 days"))
      yield* printed("three days with a job every hour", three)
      expect(yield* shift.jobs).toHaveLength(4 * 24)
      const after = yield* passes
      const more = [...after].map(([loop, count]) => [loop, count - (before.get(loop) ?? 0)] as const)
      expect(new Map(more).get("scheduler")).toBe(3 * 24)
      expect(more.filter(([loop]) => loop !== "scheduler").reduce((sum, [, count]) => sum + count, 0)).toBeLessThan(10)
      expect(three.operations / (3 * 24)).toBeLessThan(200)
      expect(three.fibers / (3 * 24)).toBeLessThan(1)
    }).pipe(
      Effect.provide(
        TestShift.layer({
          ...idle,
          schedules: [Schedule.make("hourly", { job: Tidy, payload: {}, cron: "0 * * * *" })]
        })
      ),
      observed
    )
  )

  it.effect("sweeps an acknowledged file when production would", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const storage = yield* Storage
      const acme = Schema.decodeSync(Workspace)("acme")
      const content = new TextEncoder().encode("text")
      const id = yield* storage.put(acme, { filename: "a.txt", mimetype: "text/plain", content })
      yield* shift.advance("3 minutes")
      yield* storage.ack(acme, id)
      yield* shift.advance("60 minutes")
      expect((yield* storage.counts).acked).toBe(1)
      yield* shift.advance("5 minutes")
      expect((yield* storage.counts).acked).toBe(0)
    }).pipe(Effect.provide(TestShift.layer(idle)))
  )

  it.effect("costs a few turns of the event loop for each job that a schedule fires", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const week = yield* costOf(shift.advance("7 days"))
      yield* printed("a week with a job every six hours", week)
      expect(yield* shift.jobs).toHaveLength(7 * 4)
      expect(week.timers).toBe(0)
      expect(week.turns / (7 * 4)).toBeLessThan(60)
    }).pipe(
      Effect.provide(
        TestShift.layer({
          ...idle,
          schedules: [Schedule.make("often", { job: Tidy, payload: {}, cron: "0 */6 * * *" })]
        })
      )
    )
  )

  it.effect("wakes each sleeper at its own instant, and never an interrupted one", () =>
    Effect.gen(function* () {
      const woken: Array<string> = []
      const sleeper = (name: string, duration: Duration.DurationInput) =>
        Effect.gen(function* () {
          yield* Effect.sleep(duration)
          woken.push(`${name} at ${yield* Clock.currentTimeMillis}`)
        })
      yield* Effect.fork(Effect.zipRight(sleeper("first", "2 seconds"), sleeper("again", "3 seconds")))
      yield* Effect.fork(sleeper("second", "4 seconds"))
      yield* Effect.fork(sleeper("never", Duration.infinity))
      const interrupted = yield* Effect.fork(sleeper("interrupted", "1 second"))
      yield* TestClock.adjust("500 millis")
      yield* Fiber.interrupt(interrupted)
      expect((yield* TestClock.sleeps()).pipe((sleeps) => [...sleeps].filter((at) => at < 10_000))).toEqual([
        2_000, 4_000
      ])
      yield* TestClock.adjust("10 seconds")
      expect(woken).toEqual(["first at 2000", "second at 4000", "again at 5000"])
      expect(yield* Clock.currentTimeMillis).toBe(10_500)
    }).pipe(Effect.provide(TestShift.layer(idle)))
  )

  it.effect("does not let the pause of an idle loop prolong the sleep of a fiber that its step started", () =>
    Effect.gen(function* () {
      const woken: Array<number> = []
      const nap = Effect.flatMap(Effect.zipRight(Effect.sleep("1 minute"), Clock.currentTimeMillis), (now) =>
        Effect.sync(() => woken.push(now))
      )
      const sleeper = Effect.zipRight(nap, nap)
      const run = Effect.zipRight(
        idleUntil(() => Number.POSITIVE_INFINITY),
        Effect.forkDaemon(sleeper)
      )
      const loop = repeated({ name: "idle", schedule: EffectSchedule.spaced("1 hour"), runAtStart: true, run })
      yield* Effect.fork(loop)
      yield* TestClock.adjust("1 day")
      expect(woken).toEqual([60_000, 120_000])
    }).pipe(Effect.provide(VirtualClock.layer))
  )

  it.effect("does not pass while a handler awaits a promise without a timer", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const { id } = yield* Slow.enqueue({}, { delay: "1 hour" })
      yield* shift.advance("2 hours")
      expect((yield* shift.job(id)).result).toEqual([3_600_000, 3_600_000, 3_660_000])
    }).pipe(Effect.provide(TestShift.layer({ handlers: [SlowHandler] })))
  )

  it.effect("waits for handlers' real-time work, up to a limit", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const { id } = yield* Tidy.enqueue({})
      const { id: hung } = yield* Slow.enqueue({})
      yield* shift.settle
      expect(yield* shift.job(id)).toMatchObject({ state: "done", result: "late", finishedAt: 0 })
      expect((yield* shift.job(hung)).state).toBe("running")
      yield* shift.advance("1 hour")
      expect((yield* shift.job(hung)).lastError).toMatch(/longer|time/)
    }).pipe(
      Effect.provide(
        TestShift.layer({
          handlers: [
            Handler.promise(Tidy, () => new Promise((resolve) => setTimeout(() => resolve("late"), 20))),
            Handler.make(Slow, () => Effect.never)
          ]
        })
      )
    )
  )

  it.effect("starts when the test says, and can be set", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      expect(yield* Clock.currentTimeMillis).toBe(Date.UTC(2026, 0, 1))
      const { id } = yield* Tidy.enqueue({}, { delay: "1 day" })
      yield* TestClock.setTime(Date.UTC(2026, 0, 3))
      expect(yield* shift.job(id)).toMatchObject({ state: "done", finishedAt: Date.UTC(2026, 0, 2) })
      yield* TestClock.setTime(Date.UTC(2025, 0, 1))
      expect(yield* Clock.currentTimeMillis).toBe(Date.UTC(2025, 0, 1))
    }).pipe(Effect.provide(TestShift.layer({ ...idle, startAt: "2026-01-01T00:00:00Z" })))
  )

  it("refuses to go back", async () => {
    await using shift = await testShift({ handlers: [job("tidy", { payload: z.object({}) }).handle(() => {})] })
    await shift.advance(0)
    for (const duration of [-1_000, -0.5, "-1h", "-5 minutes", Number.NaN])
      await expect(shift.advance(duration as never)).rejects.toMatchObject({
        name: "InvalidOptionError",
        option: "duration"
      })
    await expect(shift.advance(-1_000)).rejects.toThrow(/^duration must not be negative, got -1000\.$/)
    expect(shift.now()).toEqual(new Date(0))
  })

  it("passes at the end of a test until the grace of a job that runs is over", async () => {
    const endless = job("endless", { payload: z.object({}), timeout: "20h" })
    const aborted: Array<Date> = []
    const handler = endless.handle((_, { now, signal }) => {
      signal.addEventListener("abort", () => aborted.push(now()))
      return new Promise<void>(() => {})
    })
    const shift = await testShift({ handlers: [handler], grace: "4h" })
    await shift.enqueue(endless, {})
    await shift.settle()
    await shift.close()
    expect(aborted).toEqual([new Date(4 * 3_600_000)])
  })

  it.effect("refuses a step that would take minutes, and suggests an alternative", () =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(TestClock.setTime(Date.UTC(2026, 0, 1)))
      expect(String(exit)).toMatch(/from 1970-01-01.* to 2026-01-01.* limit is five years.*startAt/)
    }).pipe(Effect.provide(TestShift.layer(idle)))
  )
})

const Slow = Job.make("slow", { payload: Schema.Struct({}), timeout: "1 hour" })
const SlowHandler = Handler.make(Slow, () =>
  Effect.gen(function* () {
    const instants = [yield* Clock.currentTimeMillis]
    yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
    instants.push(yield* Clock.currentTimeMillis)
    yield* Effect.sleep("1 minute")
    yield* Effect.promise(async () => {
      for (let hop = 0; hop < 50; hop += 1) await Promise.resolve()
    })
    return [...instants, yield* Clock.currentTimeMillis]
  })
)

it.effect("two moves at the same time both reach their end, and never set the clock back", () => {
  const ranAt: Array<number> = []
  const noted = Handler.make(Tidy, () => Effect.map(Clock.currentTimeMillis, (now) => void ranAt.push(now)))
  return Effect.gen(function* () {
    const shift = yield* TestShift
    const minutes = [10, 20, 30, 40, 50, 60, 70, 80, 90]
    for (const delay of minutes) yield* Tidy.enqueue({}, { delay: `${delay} minutes` })
    const ends = yield* Effect.forEach(
      ["35 minutes", "95 minutes"] as const,
      (duration) => Effect.zipRight(shift.advance(duration), Clock.currentTimeMillis),
      { concurrency: 2 }
    )
    expect(ends.map((end) => end / 60_000)).toEqual([expect.any(Number), 95])
    expect(ends[0]).toBeGreaterThanOrEqual(35 * 60_000)
    expect(ranAt).toEqual(minutes.map((delay) => delay * 60_000))
    yield* TestClock.setTime(60_000)
    expect(yield* Clock.currentTimeMillis).toBe(60_000)
  }).pipe(Effect.provide(TestShift.layer({ handlers: [noted] })))
})

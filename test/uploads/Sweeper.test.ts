import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Context, Duration, Effect, Exit, Layer, Logger, Ref, Schema, Scope, TestClock } from "effect"
import { Workspace } from "../../src/core/Ids.js"
import { DatabaseFault } from "../../src/database/DatabaseError.js"
import { runLoop } from "../../src/telemetry/LoopRunner.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { Storage } from "../../src/uploads/Storage.js"
import * as StorageMemory from "../../src/uploads/StorageMemory.js"
import * as Sweeper from "../../src/uploads/Sweeper.js"
import { UploadsConfig } from "../../src/uploads/UploadsConfig.js"

const acme = Schema.decodeSync(Workspace)("acme")

/** Sweeps and log lines in order, each with its minute. */
class Diary extends Context.Tag("test/Diary")<Diary, Ref.Ref<ReadonlyArray<string>>>() {}

const note = (what: string) =>
  Effect.gen(function* () {
    const clock = yield* Effect.clock
    const diary = yield* Diary
    yield* Ref.update(diary, (lines) => [...lines, `${Math.floor(clock.unsafeCurrentTimeMillis() / 60_000)} ${what}`])
  })

type Fault = "none" | "error" | "defect" | "hang"

/** Files in memory with recorded sweeps, which fail as the test says. */
const watched = (fault: Fault) =>
  Layer.effect(
    Storage,
    Effect.gen(function* () {
      const storage = yield* Storage
      const context = yield* Effect.context<Diary>()
      return {
        ...storage,
        sweep: (retention: Duration.DurationInput) =>
          Effect.gen(function* () {
            yield* note("sweep")
            if (fault === "error") return yield* new DatabaseFault({ detail: "broken on purpose" })
            if (fault === "defect") return yield* Effect.dieMessage("a bug on purpose")
            return yield* fault === "hang" ? Effect.never : storage.sweep(retention)
          }).pipe(Effect.provide(context))
      }
    })
  ).pipe(Layer.provide(StorageMemory.layer), Layer.provide(UploadsConfig.layerDefault))

const config = Layer.succeed(Sweeper.SweeperConfig, {
  interval: Duration.minutes(5),
  ackRetention: Duration.hours(1)
})

/** Records the sweeper's log lines. */
const listening = Layer.unwrapEffect(
  Effect.map(Diary, (diary) =>
    Logger.replace(
      Logger.defaultLogger,
      Logger.make(({ message }) => {
        const text = String(Array.isArray(message) ? message[0] : message)
        Effect.runSync(Ref.update(diary, (lines) => [...lines, text]))
      })
    )
  )
)

const house = (fault: Fault = "none") =>
  Layer.mergeAll(watched(fault), config, Metrics.layer, listening).pipe(
    Layer.provideMerge(Layer.effect(Diary, Ref.make<ReadonlyArray<string>>([])))
  )

const hire = Effect.flatMap(Sweeper.make, runLoop)
const lines = Effect.flatMap(Diary, Ref.get)
const sweeps = Effect.map(lines, (all) => all.filter((line) => line.endsWith(" sweep")))
const metrics = Effect.flatMap(Metrics, ({ render }) => render)
const counter = (outcome: string, count: number) =>
  `nightshift_pending_uploads_swept_total{outcome="${outcome}"} ${count}`

describe("the sweeper", () => {
  it.scoped("runs a round at start and then every five minutes, without logging when nothing is deleted", () =>
    Effect.gen(function* () {
      yield* hire
      yield* TestClock.adjust("14 minutes")
      expect(yield* lines).toEqual(["0 sweep", "5 sweep", "10 sweep"])
    }).pipe(Effect.provide(house()))
  )

  it.scoped("logs and counts deletions, with counters at zero from the start", () =>
    Effect.gen(function* () {
      const storage = yield* Storage
      yield* hire
      yield* TestClock.adjust("1 minute")
      for (const outcome of ["acked", "expired", "error"]) expect(yield* metrics).toContain(counter(outcome, 0))
      const file = { filename: "a", mimetype: "", content: Buffer.from("x") }
      const [first] = yield* storage.putMany(acme, [file, file, file])
      if (first !== undefined) yield* storage.ack(acme, first)
      yield* TestClock.adjust("64 minutes")
      expect((yield* lines).at(-1)).toBe("sweeper deleted acked=1 expired=0 total=1")
      yield* TestClock.adjust("23 hours")
      expect((yield* lines).filter((line) => line.includes("deleted"))).toEqual([
        "sweeper deleted acked=1 expired=0 total=1",
        "sweeper deleted acked=0 expired=2 total=2"
      ])
      expect(yield* metrics).toContain(counter("acked", 1))
      expect(yield* metrics).toContain(counter("expired", 2))
      expect(yield* metrics).toContain(counter("error", 0))
      const draft = yield* storage.begin(file)
      yield* draft.append(Buffer.alloc(300_000))
      yield* TestClock.adjust("1 hour")
      expect((yield* lines).filter((line) => line.includes("deleted")).at(-1)).toBe(
        "sweeper deleted acked=0 expired=0 total=0 leftovers=1"
      )
    }).pipe(Effect.provide(house()))
  )

  it.scoped.each(["error", "defect"] as const)("logs and counts an %s, and retries in the next round", (fault) =>
    Effect.gen(function* () {
      yield* hire
      yield* TestClock.adjust("6 minutes")
      expect(yield* sweeps).toEqual(["0 sweep", "5 sweep"])
      expect((yield* lines).filter((line) => line === "sweeper sweep failed")).toHaveLength(2)
      expect(yield* metrics).toContain(counter("error", 2))
    }).pipe(Effect.provide(house(fault)))
  )

  it.scoped("times a round out after thirty seconds, and counts it as an error", () =>
    Effect.gen(function* () {
      yield* hire
      yield* TestClock.adjust("29 seconds")
      expect(yield* metrics).toContain(counter("error", 0))
      yield* TestClock.adjust("1 second")
      expect(yield* metrics).toContain(counter("error", 1))
      yield* TestClock.adjust("5 minutes")
      expect(yield* sweeps).toEqual(["0 sweep", "5 sweep"])
    }).pipe(Effect.provide(house("hang")))
  )

  it.effect("stops with its Scope, even in the middle of a round, without counting an error", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      yield* Scope.extend(hire, scope)
      yield* TestClock.adjust("1 second")
      yield* Scope.close(scope, Exit.void)
      yield* TestClock.adjust("1 hour")
      expect(yield* lines).toEqual(["0 sweep"])
      expect(yield* metrics).toContain(counter("error", 0))
    }).pipe(Effect.provide(house("hang")))
  )

  it.effect("is off without a database, and logs that once", () =>
    Effect.gen(function* () {
      yield* TestClock.adjust("1 hour")
      expect(yield* lines).toEqual(["sweeper is off: without a database there are no uploads"])
    }).pipe(Effect.provide(Layer.provideMerge(Sweeper.layerWithoutDatabase, house())))
  )

  it.effect.each([
    ["0", "0", 5, 60],
    ["-1m", "-1h", 5, 0],
    ["30s", "10m", 0.5, 10]
  ] as const)("reads an interval of %s and a retention of %s", ([interval, retention, minutes, kept]) =>
    Effect.gen(function* () {
      const settings = yield* Sweeper.SweeperConfig
      expect(Duration.toMinutes(settings.interval)).toBe(minutes)
      expect(Duration.toMinutes(settings.ackRetention)).toBe(kept)
    }).pipe(
      Effect.provide(Sweeper.SweeperConfig.layer),
      Effect.withConfigProvider(
        ConfigProvider.fromMap(
          new Map([
            ["UPLOADS_SWEEP_INTERVAL", interval],
            ["UPLOADS_ACK_RETENTION", retention]
          ])
        )
      )
    )
  )
})

describe("the gauge of files", () => {
  it.scoped("counts files by state, and not at every scrape", () =>
    Effect.gen(function* () {
      const storage = yield* Storage
      yield* Sweeper.make
      yield* storage.put(acme, { filename: "a", mimetype: "", content: Buffer.from("x") })
      expect(yield* metrics).toContain('nightshift_uploads{state="waiting"} 1')
      yield* storage.put(acme, { filename: "b", mimetype: "", content: Buffer.from("x") })
      expect(yield* metrics).toContain('nightshift_uploads{state="waiting"} 1')
      yield* TestClock.adjust("15 seconds")
      expect(yield* metrics).toContain('nightshift_uploads{state="waiting"} 2')
      expect(yield* metrics).toContain('nightshift_uploads{state="acked"} 0')
    }).pipe(Effect.provide(house()))
  )
})

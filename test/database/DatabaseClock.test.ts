import { describe, expect, it } from "@effect/vitest"
import { Clock, ConfigProvider, Effect, Layer } from "effect"
import { Database } from "../../src/database/Database.js"
import * as DatabaseClock from "../../src/database/DatabaseClock.js"
import * as TestDatabase from "../support/TestDatabase.js"

const layer = Layer.provideMerge(DatabaseClock.layer, TestDatabase.layerEmpty)

describe("DatabaseClock", () => {
  it.scopedLive("makes Effect's Clock show the database's time, to within a round trip", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const before = yield* Clock.currentTimeMillis
      const rows = yield* sql<{
        millis: number
      }>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as millis`
      const after = yield* Clock.currentTimeMillis
      const uncertainty = yield* Effect.flatMap(DatabaseClock.DatabaseTime, (time) => time.uncertaintyMillis)
      const millis = rows[0]?.millis ?? 0
      expect(millis).toBeGreaterThanOrEqual(before - uncertainty - 1)
      expect(millis).toBeLessThanOrEqual(after + uncertainty + 1)
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("measures spans by the machine's monotonic clock", () =>
    Effect.gen(function* () {
      const before = process.hrtime.bigint()
      const first = yield* Clock.currentTimeNanos
      const last = yield* Clock.currentTimeNanos
      const machine = yield* Effect.withClock(Clock.currentTimeNanos, Clock.make())
      const span = process.hrtime.bigint() - before
      expect(last - first).toBeGreaterThanOrEqual(0n)
      // Monotonic time is the machine's, not the database's slewed time.
      expect(machine - first).toBeGreaterThanOrEqual(0n)
      expect(machine - first).toBeLessThanOrEqual(span)
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("refuses to start when half a round trip exceeds a tenth of the lease", () =>
    Effect.gen(function* () {
      const impatient = Layer.provide(
        layer,
        Layer.setConfigProvider(ConfigProvider.fromMap(new Map([["NIGHTSHIFT_LEASE", "0.001ms"]])))
      )
      const failure = yield* Effect.flip(Layer.build(impatient))
      expect(failure).toMatchObject({ _tag: "ClockTooUncertain" })
    })
  )
})

import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { EventLoop } from "../../src/telemetry/EventLoop.js"

/** Blocks the event loop. */
const block = (millis: number) =>
  Effect.sync(() => {
    const end = performance.now() + millis
    while (performance.now() < end);
  })

describe("the event loop's delay", () => {
  it.scopedLive("is reported even if the block starts right after a reading and lasts until the next", () =>
    Effect.gen(function* () {
      const { watch } = yield* EventLoop
      const delays = yield* watch
      yield* delays
      yield* block(200)
      expect((yield* delays).max).toBeGreaterThan(0.1)
      yield* block(200)
      expect((yield* delays).max).toBeGreaterThan(0.1)
    }).pipe(Effect.provide(EventLoop.layer))
  )

  it.scopedLive("is reported to each observer once", () =>
    Effect.gen(function* () {
      const { watch } = yield* EventLoop
      const [one, other] = [yield* watch, yield* watch]
      yield* block(200)
      expect((yield* one).max).toBeGreaterThan(0.1)
      expect((yield* other).max).toBeGreaterThan(0.1)
      expect((yield* one).max).toBeLessThan(0.1)
    }).pipe(Effect.provide(EventLoop.layer))
  )

  it.scopedLive("is read from a monitor that counts in BigInt, as Bun's does", () => {
    const nanos = (millis: number) => BigInt(millis) * 1_000_000n
    const monitor = {
      count: 4n,
      mean: 60e6,
      max: nanos(120),
      percentiles: new Map([
        [50, nanos(30)],
        [100, nanos(120)]
      ]),
      enable: () => {},
      disable: () => {},
      reset: () => {}
    }
    return Effect.gen(function* () {
      const { watch } = yield* EventLoop
      const delays = yield* watch
      expect((yield* delays).max).toBeCloseTo(0.1)
    }).pipe(Effect.provide(EventLoop.layerOver(() => monitor)))
  })
})

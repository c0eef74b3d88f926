import { describe, expect, it } from "@effect/vitest"
import { Effect, TestClock } from "effect"
import { EventLoop } from "../../src/telemetry/EventLoop.js"

/** Blocks the event loop. */
const block = (millis: number) =>
  Effect.sync(() => {
    const end = performance.now() + millis
    while (performance.now() < end);
  })

/** Lets timers fire. */
const turn = Effect.async<void>((resume) => void setImmediate(() => resume(Effect.void)))

describe.each([
  { on: "Node", layer: EventLoop.layer },
  { on: "Bun and Deno", layer: EventLoop.layerTimer }
])("the event loop's delay on $on", ({ layer }) => {
  it.scopedLive("is reported even if the block starts right after a reading and lasts until the next", () =>
    Effect.gen(function* () {
      const { watch } = yield* EventLoop
      const delays = yield* watch
      yield* delays
      yield* block(150)
      expect((yield* delays).max).toBeGreaterThan(0.05)
      yield* block(150)
      expect((yield* delays).max).toBeGreaterThan(0.05)
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("is reported to each observer once", () =>
    Effect.gen(function* () {
      const { watch } = yield* EventLoop
      const [one, other] = [yield* watch, yield* watch]
      yield* block(150)
      expect((yield* one).max).toBeGreaterThan(0.05)
      expect((yield* other).max).toBeGreaterThan(0.05)
      expect((yield* one).max).toBeLessThan(0.1)
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("is not the time since the last reading", () =>
    Effect.gen(function* () {
      const { watch } = yield* EventLoop
      const delays = yield* watch
      const begun = performance.now()
      let longest = 0
      for (let now = begun; now - begun < 150; ) {
        yield* turn
        longest = Math.max(longest, performance.now() - now)
        now = performance.now()
      }
      expect((yield* delays).max).toBeLessThan(longest / 1000 + 0.05)
    }).pipe(Effect.provide(layer))
  )

  it.scoped("is measured in real time, so that a virtual clock can jump", () =>
    Effect.gen(function* () {
      const delays = yield* (yield* EventLoop).watch
      yield* TestClock.adjust("30 days")
      expect((yield* delays).max).toBeLessThan(60)
    }).pipe(Effect.provide(layer))
  )
})

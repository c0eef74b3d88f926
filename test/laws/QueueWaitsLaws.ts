import { expect, layer as withLayer } from "@effect/vitest"
import { Clock, Duration, Effect, type Layer } from "effect"
import { QueueWaits } from "../../src/history/QueueWaits.js"
import type { Advance } from "./Line.js"

/** Guarantees of the recorded waits. */
export const queueWaitsLaws = (
  name: string,
  layer: Layer.Layer<QueueWaits, unknown>,
  { advance, clock }: { readonly advance: Advance; readonly clock: "test" | "live" }
): void =>
  withLayer(layer, { excludeTestServices: clock === "live" })(name, (it) => {
    it.effect(
      "a wait lasts until its reason changes, is found by the range it touches, and is purged once it ended",
      () =>
        Effect.gen(function* () {
          const waits = yield* QueueWaits
          const start = yield* Clock.currentTimeMillis
          const seen = (from: number, to: number) =>
            Effect.map(waits.during("mail", { from: start + from, to: start + to }), (found) =>
              found.map(({ reason, since, until }) => [
                reason,
                since - start,
                until === undefined ? undefined : until - start
              ])
            )
          yield* waits.change([
            { queue: "mail", reason: "paused" },
            { queue: "other", reason: "no_pod" }
          ])
          yield* advance("10 seconds")
          yield* waits.change([{ queue: "mail", reason: "waiting_for_slot" }])
          expect((yield* waits.open).map(({ queue, reason }) => `${queue} ${reason}`).sort()).toEqual([
            "mail waiting_for_slot",
            "other no_pod"
          ])
          yield* advance("10 seconds")
          yield* waits.change([{ queue: "mail", reason: undefined }])
          const [paused, slot] = [
            ["paused", 0, 10_000],
            ["waiting_for_slot", 10_000, 20_000]
          ]
          expect(yield* seen(0, 30_000)).toEqual([paused, slot])
          expect(yield* seen(2_000, 5_000)).toEqual([paused])
          expect(yield* seen(20_000, 30_000)).toEqual([])
          yield* advance("1 day")
          expect(yield* waits.purge(Duration.hours(1))).toBe(2)
          expect((yield* waits.open).map(({ queue }) => queue)).toEqual(["other"])
        })
    )
  })

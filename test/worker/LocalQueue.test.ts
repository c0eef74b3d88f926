import { describe, expect, it } from "@effect/vitest"
import { Effect, Fiber, identity } from "effect"
import { LocalQueue } from "../../src/worker/slots/LocalQueue.js"
import { Slot, type SlotContext, work } from "../../src/worker/slots/Slot.js"

describe("the local queue", () => {
  it.effect("does not wake a slot that was interrupted while it waited", () =>
    Effect.gen(function* () {
      const localQueue = new LocalQueue()
      const logs = { keeping: () => identity } as Partial<SlotContext<never>["logs"]> as SlotContext<never>["logs"]
      const context = { localQueue, logs, onIdle: () => {} } as Partial<SlotContext<never>> as SlotContext<never>
      const fiber = yield* Effect.fork(work(new Slot(), context))
      yield* Effect.yieldNow()
      expect(localQueue.idleSlots).toBe(1)
      yield* Fiber.interrupt(fiber)
      expect(localQueue.idleSlots).toBe(0)
    })
  )
})

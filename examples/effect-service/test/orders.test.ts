import { expect, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { TestShift } from "nightshift/effect/testing"
import { ChargeCard } from "../src/jobs.js"
import { CardDeclined, ChargeCardHandler, Payments, ProviderDown } from "../src/orders.js"

const shift = TestShift.layer({ handlers: [ChargeCardHandler] })
const payments = (charge: (key: string) => Effect.Effect<void, CardDeclined | ProviderDown>) =>
  Layer.provideMerge(shift, Layer.succeed(Payments, { charge }))

it.effect("charges again after the provider was down, with the same key", () => {
  const keys: Array<string> = []
  const downOnce = payments((key) => (keys.push(key) === 1 ? new ProviderDown() : Effect.void))
  return Effect.gen(function* () {
    const test = yield* TestShift
    const { id } = yield* ChargeCard.enqueue({ order: "A-17", cents: 1250 })
    yield* test.settle
    expect((yield* test.job(id)).state).toBe("retrying")
    yield* test.advance("10 seconds")
    expect(yield* test.job(id)).toMatchObject({ state: "done", attempt: 2, result: { charged: 1250 } })
    expect(keys).toEqual([id, id])
  }).pipe(Effect.provide(downOnce))
})

it.effect("does not retry a declined card", () =>
  Effect.gen(function* () {
    const test = yield* TestShift
    const { id } = yield* ChargeCard.enqueue({ order: "A-18", cents: 1 })
    yield* test.drain
    expect(yield* test.job(id)).toMatchObject({ state: "dead", attempt: 1, lastError: "expired card" })
  }).pipe(Effect.provide(payments(() => new CardDeclined({ reason: "expired card" }))))
)

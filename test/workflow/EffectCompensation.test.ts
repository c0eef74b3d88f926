import { assert, describe, it } from "@effect/vitest"
import { Activity, DurableDeferred } from "@effect/workflow"
import { Effect, Exit, Logger, Schema } from "effect"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import { TestShift } from "../../src/testing/effect.js"
import {
  Approval,
  advance,
  approve,
  counted,
  crash,
  drain,
  exitOf,
  failing,
  nap,
  Order,
  on,
  Refused,
  Ship,
  settle,
  show,
  start
} from "./EffectOrder.js"

describe("compensation", () => {
  const compensated = (log: Array<string>, name: string) =>
    Order.withCompensation(counted(name, log), () => Effect.sync(() => void log.push(`undo ${name}`)))

  it.effect("runs in reverse order when the workflow fails", () => {
    const log: Array<string> = []
    return on(
      () =>
        compensated(log, "reserve").pipe(
          Effect.zipRight(compensated(log, "charge")),
          Effect.zipRight(nap("cool off")),
          Effect.zipRight(failing("ship", log))
        ),
      Effect.gen(function* () {
        const id = yield* start()
        yield* drain
        assert.deepStrictEqual(log, ["reserve", "charge", "ship", "undo charge", "undo reserve"])
        assert.deepStrictEqual(yield* exitOf(id), Exit.fail(new Refused({ why: "ship 3" })))
        yield* Effect.flatMap(Workflows, (service) => service.retry(id))
        yield* drain
        assert.deepStrictEqual(log.slice(5), ["reserve", "charge", "ship", "undo charge", "undo reserve"])
      })
    )
  })

  it.effect("runs when an execution is interrupted while it is asleep, over a restart", () => {
    const log: Array<string> = []
    return on(
      () => compensated(log, "charge").pipe(Effect.zipRight(nap("night")), Effect.zipRight(counted("ship", log))),
      Effect.gen(function* () {
        const id = yield* start()
        yield* settle
        yield* crash
        yield* Order.interrupt(id)
        yield* Order.interrupt(id)
        yield* drain
        const exit = yield* exitOf(id)
        assert.isTrue(exit !== undefined && Exit.isInterrupted(exit))
        assert.deepStrictEqual([log, (yield* show(id)).state], [["charge", "undo charge"], "cancelled"])
      })
    )
  })

  it.effect("runs when an execution dies because its runs crash their pod", () => {
    const log: Array<string> = []
    return on(
      () => compensated(log, "charge").pipe(Effect.zipRight(Activity.make({ name: "print", execute: Effect.never }))),
      Effect.gen(function* () {
        const id = yield* start()
        for (let times = 0; times < 5; times += 1) {
          yield* settle
          yield* crash
          yield* advance("1 hour")
        }
        const { reason, state } = yield* show(id)
        assert.deepStrictEqual([log, state, reason], [["charge", "undo charge"], "failed", "poison"])
      })
    )
  })

  const slow = (log: Array<string>, until: Effect.Effect<void>) =>
    Activity.make({
      name: "charge",
      execute: Effect.sync(() => void log.push("charge")).pipe(
        Effect.zipRight(until),
        Effect.zipRight(Effect.sync(() => void log.push("charged")))
      )
    })

  it.effect("runs once for an activity that ends after the execution was interrupted", () => {
    const log: Array<string> = []
    const gate = Effect.unsafeMakeLatch()
    return on(
      () =>
        Order.withCompensation(slow(log, gate.await), () => Effect.sync(() => void log.push("refund"))).pipe(
          Effect.zipRight(counted("ship", log))
        ),
      Effect.gen(function* () {
        const id = yield* start()
        yield* settle
        yield* Order.interrupt(id)
        yield* settle
        yield* gate.open
        yield* drain
        assert.deepStrictEqual(log, ["charge", "charged", "refund"])
        const { state, steps } = yield* show(id)
        assert.deepStrictEqual([state, steps.map(({ name }) => name)], ["cancelled", ["charge", "undo:charge"]])
      })
    )
  })

  it.effect("does not run for an activity that ends after its pod was killed, and the test ends", () => {
    const log: Array<string> = []
    const gate = Effect.unsafeMakeLatch()
    return on(
      () => Order.withCompensation(slow(log, gate.await), () => Effect.sync(() => void log.push("refund"))),
      Effect.gen(function* () {
        const id = yield* start()
        yield* settle
        yield* crash
        yield* gate.open
        yield* advance("1 minute")
        assert.deepStrictEqual([log, (yield* show(id)).steps], [["charge", "charged"], []])
      })
    )
  })

  it.effect("does not wait longer than five seconds for an activity, and reports it", () => {
    const log: Array<string> = []
    const lines: Array<string> = []
    const logger = Logger.make(({ message }) => void lines.push(String(message)))
    return on(
      () =>
        Order.withCompensation(slow(log, Effect.never), () => Effect.sync(() => void log.push("refund"))).pipe(
          Effect.zipRight(counted("ship", log))
        ),
      Effect.gen(function* () {
        const id = yield* start()
        yield* settle
        yield* Order.interrupt(id)
        yield* advance("1 minute")
        assert.deepStrictEqual([log, (yield* show(id)).state], [["charge"], "cancelled"])
        assert.match(lines.join(), /execution \S+ was cancelled and interrupts charge, which did not end in time/)
      })
    ).pipe(Effect.provide(Logger.replace(Logger.defaultLogger, logger)))
  })

  it.effect("is not repeated when the execution is interrupted during it", () => {
    const log: Array<string> = []
    const gate = Effect.unsafeMakeLatch()
    const refund = Effect.sync(() => void log.push("refund")).pipe(Effect.zipRight(gate.await))
    return on(
      () => Order.withCompensation(counted("charge", log), () => refund).pipe(Effect.zipRight(failing("ship", log))),
      Effect.gen(function* () {
        const id = yield* start()
        yield* settle
        assert.deepStrictEqual(log, ["charge", "ship", "refund"])
        yield* Order.interrupt(id)
        yield* advance("1 minute")
        yield* gate.open
        yield* drain
        assert.deepStrictEqual([log, (yield* show(id)).state], [["charge", "ship", "refund"], "cancelled"])
      })
    )
  })

  it.effect("trap 2: does not run because a pod stops", () => {
    const log: Array<string> = []
    return on(
      () => compensated(log, "charge").pipe(Effect.zipRight(Activity.make({ name: "hangs", execute: Effect.never }))),
      Effect.gen(function* () {
        const id = yield* start()
        yield* settle
        const shift = yield* TestShift
        yield* Effect.fork(shift.stopPod)
        yield* advance("1 minute")
        assert.deepStrictEqual([log, (yield* show(id)).steps.map(({ name }) => name)], [["charge"], ["charge"]])
      })
    )
  })

  it.effect("trap 7: may wait, and continues where it was", () => {
    const log: Array<string> = []
    const refund = Effect.gen(function* () {
      yield* counted("ask bank", log)
      yield* nap("bank hour")
      log.push(`refund ${yield* DurableDeferred.await(Approval)}`)
    })
    return on(
      () =>
        compensated(log, "reserve").pipe(
          Effect.zipRight(Order.withCompensation(counted("charge", log), () => refund as Effect.Effect<void>)),
          Effect.zipRight(failing("ship", log))
        ),
      Effect.gen(function* () {
        const id = yield* start()
        yield* settle
        assert.deepStrictEqual(log, ["reserve", "charge", "ship", "ask bank"])
        yield* crash
        yield* advance("1 hour")
        yield* approve(id, "ok")
        yield* drain
        assert.deepStrictEqual(log.slice(4), ["refund ok", "undo reserve"])
        assert.deepStrictEqual(yield* exitOf(id), Exit.fail(new Refused({ why: "ship 3" })))
      })
    )
  })
})

describe("a retry of a failed execution", () => {
  const retry = (id: string) => Effect.flatMap(Workflows, (service) => service.retry(id))
  const unlessBroken = (name: string, log: Array<string>, isBroken: () => boolean) =>
    Activity.make({
      name,
      success: Schema.String,
      error: Refused,
      execute: Effect.suspend(() => {
        log.push(name)
        return isBroken() ? new Refused({ why: `${name} broke` }) : Effect.succeed(name)
      })
    })

  it.effect("runs failed and compensated activities again, and keeps those between them", () => {
    const log: Array<string> = []
    let isBroken = true
    return on(
      () =>
        Order.withCompensation(counted("charge", log), () => Effect.sync(() => void log.push("refund"))).pipe(
          Effect.zipRight(counted("price", log)),
          Effect.zipRight(unlessBroken("card", log, () => isBroken).pipe(Effect.retry({ times: 1 }), Effect.either)),
          Effect.zipRight(nap("cool off")),
          Effect.zipRight(unlessBroken("ship", log, () => isBroken)),
          Effect.zipLeft(nap("after"))
        ),
      Effect.gen(function* () {
        const id = yield* start()
        yield* drain
        assert.deepStrictEqual(log, ["charge", "price", "card", "card", "ship", "refund"])
        yield* retry(id)
        yield* drain
        assert.deepStrictEqual(log.slice(6), ["charge", "card", "card", "ship", "refund"])
        assert.deepStrictEqual(yield* exitOf(id), Exit.fail(new Refused({ why: "ship broke" })))
        isBroken = false
        yield* retry(id)
        yield* drain
        assert.deepStrictEqual(log.slice(11), ["charge", "card", "ship"])
        assert.deepStrictEqual(yield* exitOf(id), Exit.succeed("ship"))
      })
    )
  })

  it.effect("retries the child that failed, and keeps the others, which the code may request later", () => {
    const log: Array<string> = []
    let isBroken = true
    const turn = Effect.async<void>((resume) => void setImmediate(() => resume(Effect.void)))
    const ship = (item: string) =>
      Effect.zipRight(isBroken || item === "b" ? Effect.void : Effect.repeatN(turn, 20), Ship.execute({ item }))
    return on(
      () => Effect.forEach(["a", "b", "c"], ship, { concurrency: "unbounded" }),
      Effect.gen(function* () {
        const id = yield* start()
        yield* drain
        assert.include((yield* show(id)).lastError, "send b broke")
        isBroken = false
        yield* retry(id)
        yield* drain
        assert.deepStrictEqual(yield* exitOf(id), Exit.succeed(["parcel of a", "parcel of b", "parcel of c"]))
        assert.deepStrictEqual(log.filter((name) => name === "label b").length, 1)
        assert.deepStrictEqual(log.filter((name) => name === "send a").length, 1)
      }),
      ({ item }) =>
        counted(`label ${item}`, log).pipe(
          Effect.zipRight(unlessBroken(`send ${item}`, log, () => isBroken && item === "b")),
          Effect.as(`parcel of ${item}`)
        )
    )
  })
})

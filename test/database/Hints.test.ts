import { describe, expect, it } from "@effect/vitest"
import { Context, Effect, Layer, Queue, type Scope } from "effect"
import { Database } from "../../src/database/Database.js"
import { Hints } from "../../src/database/Hints.js"
import * as Listener from "../../src/database/Listener.js"
import * as TestDatabase from "../support/TestDatabase.js"

type Received = Queue.Dequeue<string | undefined>

/** Collects the hints of a topic from now on. */
const subscribe = (hints: typeof Hints.Service, topic: string): Effect.Effect<Received, never, Scope.Scope> =>
  Effect.gen(function* () {
    const received = yield* Queue.unbounded<string | undefined>()
    yield* hints.subscribe(topic, (subject) => Queue.unsafeOffer(received, subject))
    return received
  })

/** Hints of another process: with its own listener on the same database. */
const another = Effect.map(Layer.build(Layer.fresh(Layer.provide(Hints.layer, Listener.layer))), Context.get(Hints))

const layer = Hints.layer.pipe(Layer.provide(Listener.layer), Layer.provideMerge(TestDatabase.layerEmpty))

/** Completes when this process receives notifications. */
const listening = (received: Received) =>
  Effect.repeat(Queue.take(received), { until: (subject) => subject === undefined })

describe("Hints", () => {
  it.scopedLive("reach this process at once and other processes through the database, only on their topic", () =>
    Effect.gen(function* () {
      const here = yield* Hints
      const there = yield* another
      const [ours, theirs, other] = [
        yield* subscribe(here, "cancel"),
        yield* subscribe(there, "cancel"),
        yield* subscribe(there, "leader")
      ]
      yield* listening(theirs)
      yield* listening(other)
      yield* here.publish("cancel", "a job: id")
      expect(yield* Queue.takeAll(ours)).toContain("a job: id")
      expect(yield* Queue.take(theirs)).toBe("a job: id")
      yield* here.publish("leader", "")
      expect(yield* Queue.take(other)).toBe("")
      expect(yield* Queue.size(theirs)).toBe(0)
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("wait for the commit of their transaction, and are dropped with its rollback", () =>
    Effect.gen(function* () {
      const here = yield* Hints
      const { transaction } = yield* Database
      const ours = yield* subscribe(here, "cancel")
      yield* listening(ours)
      yield* Effect.flip(transaction(Effect.zipRight(here.publish("cancel", "undone"), Effect.fail("no"))))
      yield* transaction(
        Effect.zipRight(
          here.publish("cancel", "done"),
          Effect.tap(Queue.size(ours), (size) => Effect.sync(() => expect(size).toBe(0)))
        )
      )
      expect(yield* Queue.take(ours)).toBe("done")
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("reach this process even when no listener can connect", () =>
    Effect.gen(function* () {
      const here = yield* Hints
      const ours = yield* subscribe(here, "cancel")
      expect(yield* here.connected).toBe(false)
      yield* here.publish("cancel", "x")
      expect(yield* Queue.takeAll(ours)).toContain("x")
    }).pipe(
      Effect.provide(
        Hints.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provide(TestDatabase.layerEmpty), Layer.fresh)
      )
    )
  )

  it.scoped("reach the listeners of one process until the Scope closes", () =>
    Effect.gen(function* () {
      const here = yield* Hints
      const calls: Array<string | undefined> = []
      yield* Effect.scoped(here.subscribe("leader", (subject) => calls.push(subject)))
      yield* here.publish("leader", "unsubscribed")
      yield* here.subscribe("leader", (subject) => calls.push(subject))
      yield* here.publish("leader", "subscribed")
      expect(calls).toEqual(["subscribed"])
    }).pipe(Effect.provide(Hints.layerLocal))
  )
})

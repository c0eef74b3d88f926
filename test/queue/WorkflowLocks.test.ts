import { expect, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { never } from "../../src/core/Suspension.js"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { type ClaimedJob, Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import * as TestDatabase from "../support/TestDatabase.js"

// The order of locks, shown with a transaction that holds a row of a wait. A statement that waits for this row must not hold
// a job that this transaction needs next, as a signal does: that would be a deadlock.

const house = QueuePg.layer.pipe(Layer.provide(Listener.layer), Layer.provideMerge(TestDatabase.layer))

const execution = (queue: string, name: string) => ({
  kind: "order",
  version: 1,
  queue,
  payload: {},
  attempts: 5,
  execution: `${queue}/${name}`
})

const claimOne = (queue: string) =>
  Effect.gen(function* () {
    const pod = (yield* makeGenerator).pod(0)
    const [job] = yield* (yield* Queue).claim({ queue, pod, limit: 1 })
    if (job === undefined) return yield* Effect.dieMessage("no job is due")
    return job
  })

const finalize = ({ id, isChild, lease }: ClaimedJob, end: End) =>
  Effect.flatMap(Queue, (queue) => queue.finalize([{ id, lease, linked: true, isChild, end }]))

const suspended = (woken: number, kind: "signal" | "children", names: ReadonlyArray<string>) =>
  End.Suspended({ woken, runAt: never, waits: names.map((name) => ({ kind, name })), error: undefined })

/** Holds a row of workflow_deferred while `within` runs in the same transaction, and releases it afterwards. */
const holding = <A, E, R>(row: readonly [execution: string, name: string], within: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const { sql, transaction } = yield* Database
    const locked = yield* Deferred.make<void>()
    const held = Effect.gen(function* () {
      const rows = yield* sql`select from nightshift.workflow_deferred
        where execution = ${row[0]} and name = ${row[1]} for update`
      expect(rows.length).toBe(1)
      yield* Deferred.succeed(locked, undefined)
      return yield* within
    })
    const fiber = yield* Effect.fork(transaction(held))
    yield* Effect.raceFirst(Deferred.await(locked), Fiber.join(fiber))
    return fiber
  })

/** Waits until this many sessions wait for a lock. */
const blocked = (sessions: number) =>
  Effect.gen(function* () {
    const { sql } = yield* Database
    return (yield* sql`select from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`).length
  }).pipe(Effect.repeat({ until: (count) => count >= sessions }))

const lockNow = (id: string) =>
  Effect.flatMap(Database, ({ sql }) => sql`select from nightshift.job where id = ${id} for no key update nowait`)

layer(house, { excludeTestServices: true })("the locks of workflows on PostgreSQL", (it) => {
  it.effect("a suspension that waits for a signal's row holds no job that the signal locks next", () =>
    Effect.gen(function* () {
      const workflows = yield* Workflows
      yield* workflows.start(execution("suspend", "A"))
      const first = yield* claimOne("suspend")
      yield* finalize(first, suspended(0, "signal", ["left", "other"]))
      yield* workflows.wake("suspend/A")
      const second = yield* claimOne("suspend")
      const gate = yield* Deferred.make<void>()
      // A signal has stored its value and has not locked the job yet.
      const signal = yield* holding(["suspend/A", "left"], Effect.zipRight(Deferred.await(gate), lockNow(first.id)))
      const suspension = yield* Effect.fork(
        finalize(second, suspended(second.execution?.woken ?? 0, "signal", ["other"]))
      )
      yield* blocked(1)
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(signal)
      expect(yield* Fiber.join(suspension)).toEqual([])
      const { waits } = yield* workflows.show("suspend/A")
      expect(waits.map(({ name }) => name)).toEqual(["other"])
    })
  )

  it.effect("a cancel of a parent waits for a child that ends, and holds nothing that the child's end locks next", () =>
    Effect.gen(function* () {
      const workflows = yield* Workflows
      yield* workflows.start(execution("cancel", "A"))
      const parent = yield* claimOne("cancel")
      yield* workflows.startChildren(parent, "ship", [execution("cancel", "B")])
      yield* finalize(parent, suspended(0, "children", ["ship"]))
      const child = yield* claimOne("cancel")
      const gate = yield* Deferred.make<void>()
      const holder = yield* holding(["cancel/A", "ship"], Effect.zipRight(Deferred.await(gate), lockNow(parent.id)))
      const end = yield* Effect.fork(finalize(child, End.Done({ result: undefined })))
      yield* blocked(1)
      const cancel = yield* Effect.fork(workflows.cancel("cancel/A"))
      yield* blocked(2)
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(holder)
      expect(yield* Fiber.join(end)).toEqual([])
      expect((yield* Fiber.join(cancel)).cancelled).toBe(1)
      expect((yield* workflows.show("cancel/B")).state).toBe("done")
    })
  )
})

import { expect } from "@effect/vitest"
import { Duration, Effect } from "effect"
import type { Dedupe } from "../../src/queue/NewJob.js"
import { ends, type Law, type Line } from "./Line.js"
import { begin, suspend } from "./WorkflowLine.js"

const active = (line: Line, more: Partial<Dedupe> = {}): Dedupe => ({ key: `${line.name}:k`, scope: "active", ...more })
const retained = (line: Line, more: Partial<Dedupe> = {}): Dedupe => active(line, { scope: "retained", ...more })

/** Enqueues one more job with this key and returns the outcome. */
const again = (line: Line, dedupe: Dedupe, more: object = {}) =>
  Effect.map(line.queue.enqueue([line.job({ dedupe, ...more })]), ([answer]) => answer)

export const dedupeLaws = (law: Law): void => {
  law("an active key is held while its job is pending, running or retrying, and free when it is done", (line) =>
    Effect.gen(function* () {
      const dedupe = active(line)
      const id = yield* line.put({ dedupe })
      expect(yield* line.search.get(id)).toMatchObject({ dedupe })
      const refused = { outcome: "deduplicated", id }
      expect(yield* again(line, dedupe)).toEqual(refused)
      const run = yield* line.claimOne
      expect(yield* again(line, dedupe)).toEqual(refused)
      yield* line.end(run, ends.again(yield* line.now))
      expect(yield* again(line, dedupe)).toEqual(refused)
      yield* line.end(yield* line.claimOne, ends.done)
      expect(yield* again(line, dedupe)).toMatchObject({ outcome: "enqueued" })
      expect(yield* line.all()).toHaveLength(2)
    })
  )

  law("an active key is free when its job is dead", (line) =>
    Effect.gen(function* () {
      const dedupe = active(line)
      yield* line.end(yield* line.run({ dedupe }), ends.dead)
      expect(yield* again(line, dedupe)).toMatchObject({ outcome: "enqueued" })
    })
  )

  law("a job with a retained key is deduplicated after the first was done or dead", (line) =>
    Effect.gen(function* () {
      for (const end of [ends.done, ends.dead]) {
        const dedupe = retained(line, { key: `${line.name}:${end._tag}` })
        const run = yield* line.run({ dedupe })
        const before = yield* line.end(run, end)
        yield* line.advance("30 days")
        expect(yield* again(line, dedupe)).toEqual({ outcome: "deduplicated", id: run.id })
        expect(yield* line.search.get(run.id)).toEqual(before)
      }
    })
  )

  law("a retained key is free when its row is deleted", (line) =>
    Effect.gen(function* () {
      const dedupe = retained(line)
      const run = yield* line.run({ dedupe })
      yield* line.end(run, ends.done)
      yield* line.advance("1 day")
      yield* line.queue.purge(Duration.hours(1))
      const next = yield* line.put({ dedupe })
      yield* line.jobAdmin.remove(next)
      expect(yield* again(line, dedupe)).toMatchObject({ outcome: "enqueued" })
    })
  )

  law("a retained key with a window is held for that time after its job was stored", (line) =>
    Effect.gen(function* () {
      const dedupe = retained(line, { window: Duration.hours(48) })
      const run = yield* line.run({ dedupe })
      yield* line.end(run, ends.done)
      yield* line.advance("47 hours")
      expect(yield* again(line, dedupe)).toEqual({ outcome: "deduplicated", id: run.id })
      yield* line.advance("1 hour")
      const next = yield* line.put({ dedupe })
      expect(next).not.toBe(run.id)
      expect(yield* again(line, dedupe)).toEqual({ outcome: "deduplicated", id: next })
      expect(yield* line.search.get(run.id)).toMatchObject({ state: "done" })
    })
  )

  law("a window does not end while its job is unfinished", (line) =>
    Effect.gen(function* () {
      const dedupe = retained(line, { window: Duration.hours(1) })
      const id = yield* line.put({ dedupe })
      yield* line.advance("2 hours")
      expect(yield* again(line, dedupe)).toEqual({ outcome: "deduplicated", id })
      const run = yield* line.claimOne
      expect(yield* again(line, dedupe)).toEqual({ outcome: "deduplicated", id })
      yield* line.end(run, ends.done)
      expect(yield* again(line, dedupe)).toMatchObject({ outcome: "enqueued" })
    })
  )

  law("a key is shared by all queues and kinds", (line) =>
    Effect.gen(function* () {
      const dedupe = active(line)
      const id = yield* line.put({ dedupe })
      expect(yield* again(line, dedupe, { queue: `${line.name}-other`, kind: "part" })).toEqual({
        outcome: "deduplicated",
        id
      })
    })
  )

  law("the first of two jobs with one key in one request is stored", (line) =>
    Effect.gen(function* () {
      const dedupe = active(line)
      const [first, free, second] = yield* line.queue.enqueue([
        line.job({ dedupe, payload: 1 }),
        line.job(),
        line.job({ dedupe, payload: 2 })
      ])
      expect([first?.outcome, free?.outcome, second?.outcome]).toEqual(["enqueued", "enqueued", "deduplicated"])
      expect(second?.id).toBe(first?.id)
      expect((yield* line.all()).map(({ payload }) => payload)).toEqual([{ name: "Ada" }, 1])
    })
  )

  law("many concurrent enqueues of one key store one job", (line) =>
    Effect.gen(function* () {
      const dedupe = retained(line)
      const answers = yield* Effect.all(
        Array.from({ length: 20 }, () => again(line, dedupe)),
        { concurrency: "unbounded" }
      )
      const [standing] = yield* line.all()
      expect(new Set(answers.map((answer) => answer?.id))).toEqual(new Set([standing?.id]))
      expect(answers.filter((answer) => answer?.outcome === "enqueued")).toHaveLength(1)
    })
  )

  law("requests with the same keys in opposite order do not deadlock", (line) =>
    Effect.gen(function* () {
      const keys = Array.from({ length: 50 }, (_, n) => `${line.name}:${n}`)
      const request = (order: ReadonlyArray<string>) =>
        line.queue.enqueue(order.map((key) => line.job({ dedupe: { key, scope: "active" }, payload: key })))
      const [up, down] = yield* Effect.all([request(keys), request(keys.toReversed())], { concurrency: 2 })
      expect(down.map(({ id }) => id).reverse()).toEqual(up.map(({ id }) => id))
      expect(yield* line.all()).toHaveLength(keys.length)
    })
  )

  law("replace gives a pending holder the new payload, start time and priority", (line) =>
    Effect.gen(function* () {
      const dedupe = active(line, { replace: true })
      const id = yield* line.put({ dedupe, payload: 1, priority: 5 })
      const later = (yield* line.now) + 60_000
      expect(yield* again(line, dedupe, { payload: 2, runAt: later, priority: -1 })).toEqual({
        outcome: "deduplicated",
        id
      })
      expect(yield* line.search.get(id)).toMatchObject({ payload: 2, runAt: later, priority: -1, state: "scheduled" })
      yield* line.advance("10 seconds")
      yield* again(line, dedupe, { payload: 3 })
      expect(yield* line.search.get(id)).toMatchObject({ payload: 3, runAt: yield* line.now, priority: 0 })
      expect(yield* line.claimOne).toMatchObject({ id, payload: 3 })
    })
  )

  law("replace does not change a holder that is running or finished", (line) =>
    Effect.gen(function* () {
      const dedupe = retained(line, { replace: true })
      const run = yield* line.run({ dedupe, payload: 1 })
      const running = yield* line.search.get(run.id)
      expect(yield* again(line, dedupe, { payload: 2 })).toEqual({ outcome: "deduplicated", id: run.id })
      expect(yield* line.search.get(run.id)).toEqual(running)
      const over = yield* line.end(run, ends.done)
      expect(yield* again(line, dedupe, { payload: 2 })).toEqual({ outcome: "deduplicated", id: run.id })
      expect(yield* line.search.get(run.id)).toEqual(over)
    })
  )

  law("replace does not change a holder of another kind", (line) =>
    Effect.gen(function* () {
      const id = yield* line.put({ dedupe: active(line), payload: 1 })
      const dedupe = active(line, { replace: true })
      expect(yield* again(line, dedupe, { kind: "part", payload: 2 })).toEqual({ outcome: "deduplicated", id })
      expect(yield* line.search.get(id)).toMatchObject({ kind: "greet", payload: 1 })
    })
  )

  law("replace does not change a workflow execution", (line) =>
    Effect.gen(function* () {
      const order = yield* begin(line)
      yield* suspend(line, order, [{ kind: "signal", name: "paid", dueAt: undefined }])
      const before = yield* line.search.get(order.id)
      const dedupe = { key: `${line.name}/order`, scope: "active", replace: true } as const
      const answer = { outcome: "deduplicated", id: order.id }
      expect(yield* again(line, dedupe, { kind: "order", payload: 2, priority: 5 })).toEqual(answer)
      expect(yield* line.search.get(order.id)).toEqual(before)
      expect(yield* line.claim()).toEqual([])
    })
  )

  law("the last of several replacements in one request wins", (line) =>
    Effect.gen(function* () {
      const dedupe = active(line, { replace: true })
      const answers = yield* line.queue.enqueue([1, 2, 3].map((payload) => line.job({ dedupe, payload })))
      expect(answers.map(({ outcome }) => outcome)).toEqual(["enqueued", "deduplicated", "deduplicated"])
      expect((yield* line.all()).map(({ payload }) => payload)).toEqual([3])
    })
  )
}

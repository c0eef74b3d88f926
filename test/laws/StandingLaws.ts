import { expect } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { End } from "../../src/queue/AttemptEnd.js"
import type { KeyOrder } from "../../src/queue/settings/QueueSettings.js"
import { ends, type Law, type Line } from "./Line.js"
import { claimNow, set } from "./PauseLaws.js"

const throttled = (runAt: number, scope: "queue" | "key", after: number) =>
  End.Again({ runAt, counted: false, error: undefined, remember: "throttled", cools: { scope, after } })

const clear = { paused: false, cooling: undefined, keyCoolingUntil: undefined, rated: undefined, held: undefined }

/** Three jobs of one key; the first is claimed. */
const keyLine = (line: Line, order: KeyOrder, concurrency = 1) =>
  Effect.gen(function* () {
    yield* set(line, { perKey: { concurrency, order } })
    const ids = [yield* line.put({ key: "k" }), yield* line.put({ key: "k" }), yield* line.put({ key: "k" })]
    const [run] = yield* claimNow(line, 1)
    expect(run?.id).toBe(ids[0])
    if (run === undefined) return yield* Effect.dieMessage("nothing was claimed")
    const heldOf = (place: number) => Effect.map(line.standing.of(ids[place] ?? run.id), ({ held }) => held)
    return { ids, run, heldOf }
  })

export const standingLaws = (law: Law): void => {
  law("a job that nothing delays has only its position, by priority, start time and id", (line) =>
    Effect.gen(function* () {
      const now = yield* line.now
      const first = yield* line.put()
      const second = yield* line.put()
      const urgent = yield* line.put({ priority: -5 })
      yield* line.put({ priority: -7, runAt: now + 3_600_000 })
      yield* line.put({ priority: -6 })
      const late = yield* line.put({ priority: 3 })
      const aheadOf = (id: typeof first) => Effect.map(line.standing.of(id), ({ ahead }) => ahead)
      expect(yield* line.standing.of(first)).toMatchObject({
        ...clear,
        keyed: false,
        maxWorkers: 10,
        job: { id: first }
      })
      expect(yield* aheadOf(urgent)).toEqual({ count: 1, exact: true })
      expect(yield* aheadOf(first)).toEqual({ count: 2, exact: true })
      expect(yield* aheadOf(second)).toEqual({ count: 3, exact: true })
      expect(yield* aheadOf(late)).toEqual({ count: 4, exact: true })
      yield* claimNow(line, 3)
      expect(yield* aheadOf(second)).toEqual({ count: 0, exact: true })
      expect(yield* aheadOf(first)).toEqual({ count: 0, exact: true })
    })
  )

  law("no more than a thousand jobs ahead are counted", (line) =>
    Effect.gen(function* () {
      yield* line.queue.enqueue(Array.from({ length: 700 }, () => line.job()))
      yield* line.queue.enqueue(Array.from({ length: 700 }, () => line.job({ priority: -1 })))
      const last = yield* line.put()
      expect((yield* line.standing.of(last)).ahead).toEqual({ count: 1_000, exact: false })
    })
  )

  law("an unknown job is not found", (line) =>
    Effect.gen(function* () {
      const id = yield* line.newId
      expect(yield* Effect.flip(line.standing.of(id))).toMatchObject({ _tag: "JobNotFound", id })
    })
  )

  law("reports whether its queue is paused, cooling down or out of tokens, and until when", (line) =>
    Effect.gen(function* () {
      yield* set(line, { paused: true, rate: { jobs: 1, per: Duration.seconds(10) } })
      const id = yield* line.put()
      expect(yield* line.standing.of(id)).toMatchObject({ ...clear, paused: true })
      yield* line.queues.change(line.name, { paused: false })
      const run = yield* line.claimOne
      const now = yield* line.now
      const next = yield* line.put()
      const rated = { rate: { jobs: 1 }, opensAt: now + 10_000 }
      expect(yield* line.standing.of(next)).toMatchObject({ ...clear, rated })
      yield* line.end(run, throttled(run.runAt, "queue", 90_000))
      const cooling = { until: now + 90_000, times: 0 }
      expect(yield* line.standing.of(next)).toMatchObject({ ...clear, cooling, rated })
      yield* line.advance("90 seconds")
      expect(yield* line.standing.of(next)).toMatchObject(clear)
    })
  )

  law("reports until when its key cools down, and ignores other keys", (line) =>
    Effect.gen(function* () {
      yield* line.queues.declare([line.name])
      const run = yield* line.run({ key: "hot" })
      const now = yield* line.now
      yield* line.end(run, throttled(run.runAt, "key", 30_000))
      const other = yield* line.put({ key: "cold" })
      expect(yield* line.standing.of(run.id)).toMatchObject({ ...clear, keyCoolingUntil: now + 30_000, keyed: true })
      expect(yield* line.standing.of(other)).toMatchObject(clear)
      yield* line.advance("30 seconds")
      expect(yield* line.standing.of(run.id)).toMatchObject({ ...clear, keyed: false })
    })
  )

  law("a key is busy while its limit of jobs run, whatever the order", (line) =>
    Effect.gen(function* () {
      const { heldOf, ids, run } = yield* keyLine(line, "none")
      const busy = { by: ids[0], cause: "busy", until: undefined }
      expect(yield* heldOf(1)).toEqual(busy)
      expect(yield* heldOf(2)).toEqual(busy)
      yield* line.queues.change(line.name, { perKey: { concurrency: 2, order: "none" } })
      expect(yield* heldOf(1)).toBeUndefined()
      yield* line.queues.change(line.name, { perKey: { concurrency: 1, order: "strict" } })
      expect(yield* heldOf(2)).toEqual(busy)
      yield* line.end(run, ends.done)
      expect(yield* heldOf(1)).toBeUndefined()
      expect(yield* heldOf(2)).toEqual({ by: ids[1], cause: "order", until: undefined })
    })
  )

  law("in strict order a job waits for an earlier one's retry, in serial order it does not", (line) =>
    Effect.gen(function* () {
      const { heldOf, ids, run } = yield* keyLine(line, "strict")
      const retryAt = (yield* line.now) + 60_000
      yield* line.end(run, ends.again(retryAt))
      const behind = { by: ids[0], cause: "order", until: retryAt }
      expect(yield* heldOf(1)).toEqual(behind)
      expect(yield* heldOf(2)).toEqual(behind)
      expect(yield* claimNow(line)).toEqual([])
      yield* line.queues.change(line.name, { perKey: { concurrency: 1, order: "serial" } })
      expect(yield* heldOf(1)).toBeUndefined()
      expect(yield* heldOf(2)).toEqual({ by: ids[1], cause: "order", until: undefined })
      yield* line.advance("60 seconds")
      expect(yield* heldOf(0)).toBeUndefined()
      expect(yield* heldOf(1)).toEqual({ by: ids[0], cause: "order", until: undefined })
      expect((yield* claimNow(line)).map(({ id }) => id)).toEqual([ids[0]])
    })
  )
}

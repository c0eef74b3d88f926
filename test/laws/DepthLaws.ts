import { expect } from "@effect/vitest"
import { Duration, Effect, Exit } from "effect"
import { ends, type Law, type Line } from "./Line.js"

const capped = (line: Line, depthCap: number) =>
  Effect.zipRight(line.queues.declare([line.name]), line.queues.change(line.name, { depthCap }))

const put = (line: Line, count: number) => line.queue.enqueue(Array.from({ length: count }, () => line.job()))

export const depthLaws = (law: Law): void => {
  law("a queue accepts jobs up to its cap and refuses the next, naming the queue and the cap", (line) =>
    Effect.gen(function* () {
      yield* capped(line, 3)
      yield* put(line, 2)
      yield* put(line, 1)
      expect(yield* Effect.flip(put(line, 1))).toMatchObject({ _tag: "QueueFull", queue: line.name, cap: 3 })
      expect(yield* line.all()).toHaveLength(3)
    })
  )

  law("a request that exceeds the cap is refused whole", (line) =>
    Effect.gen(function* () {
      yield* capped(line, 3)
      yield* put(line, 2)
      expect(yield* Effect.flip(put(line, 2))).toMatchObject({ _tag: "QueueFull" })
      expect(yield* line.all()).toHaveLength(2)
    })
  )

  law("running and finished jobs make room, and so does a higher cap", (line) =>
    Effect.gen(function* () {
      yield* capped(line, 2)
      yield* put(line, 2)
      const [run] = yield* line.claim(1)
      if (run === undefined) return yield* Effect.dieMessage("two were stored")
      yield* put(line, 1)
      yield* line.end(run, ends.done)
      expect(yield* Effect.flip(put(line, 1))).toMatchObject({ _tag: "QueueFull" })
      yield* line.queues.change(line.name, { depthCap: 4 })
      yield* put(line, 2)
      yield* line.queues.change(line.name, { depthCap: null })
      yield* put(line, 5)
      expect(yield* line.all()).toHaveLength(10)
    })
  )

  law("a full queue still accepts jobs it already holds: by id, by dedupe key and by replacement", (line) =>
    Effect.gen(function* () {
      yield* capped(line, 3)
      const id = yield* line.newId
      const own = line.job({ id, payload: 1 })
      const dedupe = { key: `${line.name}-a`, scope: "active" } as const
      const [, held] = yield* line.queue.enqueue([own, line.job({ payload: 2, dedupe }), line.job()])
      if (held === undefined) return yield* Effect.dieMessage("three were stored")
      expect(yield* line.queue.enqueue([own])).toEqual([{ outcome: "enqueued", id }])
      const again = line.job({ payload: 3, dedupe })
      expect(yield* line.queue.enqueue([again])).toEqual([{ outcome: "deduplicated", id: held.id }])
      const replacing = line.job({ payload: 4, dedupe: { ...dedupe, replace: true } })
      expect(yield* line.queue.enqueue([replacing])).toEqual([{ outcome: "deduplicated", id: held.id }])
      expect((yield* line.search.get(held.id)).payload).toBe(4)
      expect(yield* line.queue.enqueue([own, again])).toEqual([
        { outcome: "enqueued", id },
        { outcome: "deduplicated", id: held.id }
      ])
      const exits = yield* line.submit([again, line.job(), replacing])
      const ends = exits.map((exit) => Exit.match(exit, { onSuccess: ({ outcome }) => outcome, onFailure: String }))
      expect(ends).toMatchObject(["deduplicated", expect.stringContaining("QueueFull"), "deduplicated"])
      expect(yield* Effect.flip(line.queue.enqueue([own, line.job()]))).toMatchObject({ _tag: "QueueFull" })
      const taken = yield* Effect.flip(line.queue.enqueue([line.job({ id, payload: 5 })]))
      expect(taken).toMatchObject({ _tag: "JobIdTaken" })
      expect(yield* line.all()).toHaveLength(3)
    })
  )

  law("a key that occurs twice in a request needs room once, and one whose window is over needs it again", (line) =>
    Effect.gen(function* () {
      yield* capped(line, 2)
      const window = Duration.minutes(1)
      const dedupe = { key: `${line.name}-a`, scope: "retained", window } as const
      yield* line.end(yield* line.run({ dedupe }), ends.done)
      yield* put(line, 1)
      const other = line.job({ dedupe: { key: `${line.name}-b`, scope: "active" } })
      const answers = yield* line.queue.enqueue([other, other])
      expect(answers.map(({ outcome }) => outcome)).toEqual(["enqueued", "deduplicated"])
      expect(yield* line.queue.enqueue([line.job({ dedupe })])).toMatchObject([{ outcome: "deduplicated" }])
      yield* line.advance("2 minutes")
      expect(yield* Effect.flip(line.queue.enqueue([line.job({ dedupe })]))).toMatchObject({ _tag: "QueueFull" })
    })
  )
}

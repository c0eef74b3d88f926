import { expect } from "@effect/vitest"
import { Effect } from "effect"
import { ends, type Law, type Line } from "./Line.js"

const capped = (line: Line, depthCap: number) =>
  Effect.zipRight(line.queues.declare([line.name]), line.queues.change(line.name, { depthCap }))

const put = (line: Line, count: number) => line.queue.enqueue(Array.from({ length: count }, () => line.job()))

export const depthLaws = (law: Law): void => {
  law("a queue takes jobs up to its cap and refuses the next, saying which queue and which cap", (line) =>
    Effect.gen(function* () {
      yield* capped(line, 3)
      yield* put(line, 2)
      yield* put(line, 1)
      expect(yield* Effect.flip(put(line, 1))).toMatchObject({ _tag: "QueueFull", queue: line.name, cap: 3 })
      expect(yield* line.all()).toHaveLength(3)
    })
  )

  law("a request that does not fit is refused whole", (line) =>
    Effect.gen(function* () {
      yield* capped(line, 3)
      yield* put(line, 2)
      expect(yield* Effect.flip(put(line, 2))).toMatchObject({ _tag: "QueueFull" })
      expect(yield* line.all()).toHaveLength(2)
    })
  )

  law("what runs and what is over makes room, and so does a higher cap", (line) =>
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
}

import { expect } from "@effect/vitest"
import { Effect } from "effect"
import type { PodId } from "../../src/core/Ids.js"
import { ends, type Law } from "./Line.js"

export const attemptLaws = (law: Law): void => {
  law("a running attempt is returned as it was claimed, to its pod only", (line) =>
    Effect.gen(function* () {
      const run = yield* line.run({ key: "k", meta: { from: "law" } })
      yield* line.advance("5 seconds")
      const other = "00000000-0000-8000-8000-000000000000" as PodId
      expect(yield* line.queue.attempts(line.pod, [run])).toEqual([{ _tag: "Running", job: run }])
      expect(yield* line.queue.attempts(other, [run])).toEqual([undefined])
      const another = yield* line.newId
      expect(yield* line.queue.attempts(line.pod, [{ ...run, id: another }, run])).toMatchObject([
        undefined,
        { _tag: "Running" }
      ])
    })
  )

  law("an attempt that its pod has ended is known, with the status of the job", (line) =>
    Effect.gen(function* () {
      const done = yield* line.run()
      yield* line.end(done, ends.done)
      const dead = yield* line.run()
      yield* line.end(dead, ends.dead)
      const failed = yield* line.run()
      yield* line.end(failed, ends.again(yield* line.now))
      expect(yield* line.queue.attempts(line.pod, [done, dead, failed])).toEqual([
        { _tag: "Ended", status: "done" },
        { _tag: "Ended", status: "dead" },
        { _tag: "Ended", status: "pending" }
      ])
      yield* line.advance("5 seconds")
      const again = yield* line.claimOne
      expect(again.id).toBe(failed.id)
      expect(yield* line.queue.attempts(line.pod, [failed, again])).toMatchObject([
        { _tag: "Ended", status: "running" },
        { _tag: "Running" }
      ])
    })
  )

  law("an attempt that was rescued, or returned unstarted, is not known", (line) =>
    Effect.gen(function* () {
      const lost = yield* line.run()
      yield* line.crash(lost)
      const again = yield* line.claimOne
      expect(again.id).toBe(lost.id)
      yield* line.end(again, ends.done)
      const returned = yield* line.run()
      yield* line.end(returned, ends.release(yield* line.now))
      expect(yield* line.queue.attempts(line.pod, [lost, again, returned])).toEqual([
        undefined,
        { _tag: "Ended", status: "done" },
        undefined
      ])
    })
  )
}

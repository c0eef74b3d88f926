import { describe, expect, it } from "@effect/vitest"
import { type Duration, Effect, Schema } from "effect"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import * as StepClock from "../support/StepClock.js"
import * as TestCluster from "./TestCluster.js"

const Report = Job.make("report", { payload: Schema.Struct({}) })
const Bomb = Job.make("bomb", { payload: Schema.Struct({}) })

const jobs = Effect.flatMap(JobSearch, (search) => search.list({}, { limit: 100 }))

/** A process with ten slots. It is killed five seconds after it has started a bomb. */
const hire = Effect.fnUntraced(function* (reportTakes: Duration.DurationInput) {
  const at = { now: 0, most: 0, killed: false }
  const report = Effect.acquireUseRelease(
    Effect.sync(() => {
      at.now += 1
      at.most = Math.max(at.most, at.now)
    }),
    () => Effect.sleep(reportTakes),
    () =>
      Effect.sync(() => {
        at.now -= 1
      })
  )
  const bomb: Effect.Effect<void> = Effect.zipRight(
    Effect.sleep("5 seconds"),
    Effect.suspend(() => {
      at.killed = true
      pod.connected(false)
      return Effect.never
    })
  )
  const pod = yield* TestCluster.hire({
    slots: 10,
    handlers: [Handler.make(Report, () => report), Handler.make(Bomb, () => bomb)]
  })
  return { at, kill: Effect.sync(() => pod.connected(false)) }
})

describe("jobs whose process has crashed", () => {
  it.scopedLive("finish, and only the one that crashes it five times is dead", () =>
    Effect.gen(function* () {
      for (let n = 0; n < 5; n += 1) yield* Report.enqueue({})
      const { id: bomb } = yield* Bomb.enqueue({})
      for (let n = 0; n < 4; n += 1) yield* Report.enqueue({})
      const states = Effect.map(jobs, ({ jobs }) =>
        jobs.map(({ id, state }) => (id === bomb ? `bomb ${state}` : state))
      )
      let killed = 0
      let process = yield* hire("1 minute")
      for (let minutes = 0; minutes < 25; minutes += 1) {
        yield* StepClock.advance("1 minute")
        if (process.at.killed) {
          killed += 1
          process = yield* hire("1 minute")
        }
      }
      expect(killed).toBe(5)
      expect((yield* states).sort()).toEqual(["bomb dead", ...Array.from({ length: 9 }, () => "done")])
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("run together after one crash, in groups after more, and alone before the last", () =>
    Effect.gen(function* () {
      for (let n = 0; n < 10; n += 1) yield* Report.enqueue({})
      const most: Array<number> = []
      for (let crash = 0; crash < 5; crash += 1) {
        const { at, kill } = yield* hire("1 hour")
        // Long enough to rescue the jobs of the process before it.
        yield* StepClock.advance("2 minutes")
        most.push(at.most)
        yield* kill
      }
      // The fourth begins with three of the seven jobs that were not among those of the third.
      expect(most).toEqual([10, 10, 3, 3, 1])
    }).pipe(Effect.provide(TestCluster.layer))
  )
})

import { describe, expect, it } from "@effect/vitest"
import { Clock, Effect, Option } from "effect"
import { Leadership } from "../../src/cluster/Leadership.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { defaults } from "../../src/schedule/ScheduleDefinition.js"
import { Schedules } from "../../src/schedule/Schedules.js"
import * as StepClock from "../support/StepClock.js"
import * as TestCluster from "../worker/TestCluster.js"

const create = (cron: string) =>
  Effect.flatMap(Schedules, (schedules) =>
    schedules.create({
      ...defaults,
      name: "often",
      kind: "noop_echo",
      payload: {},
      cron,
      missed: { all: 1_000 },
      queue: undefined,
      attempts: undefined
    })
  )

/** Every job with the second of its tick and its delay, oldest first. */
const fired = Effect.gen(function* () {
  const { jobs } = yield* Effect.flatMap(JobSearch, (search) => search.list({}, { limit: 1_000 }))
  return jobs
    .map(({ createdAt, meta }) => {
      const tick = Date.parse(Object(meta).tick)
      return { second: tick / 1_000, late: (createdAt - tick) / 1_000 }
    })
    .sort((a, b) => a.second - b.second)
})

describe("a schedule in a cluster whose leaders lose the database in turn", () => {
  it.scopedLive("has one job per tick, none later than the lease plus five seconds", () =>
    Effect.gen(function* () {
      const pods = [yield* TestCluster.hire(), yield* TestCluster.hire(), yield* TestCluster.hire()]
      yield* create("*/10 * * * * *")
      for (let round = 0; round < 3; round += 1) {
        yield* StepClock.advance("33 seconds")
        const leader = Option.getOrThrow(yield* Effect.flatMap(Leadership, (leadership) => leadership.leader))
        const cut = pods.find(({ worker }) => worker.pod === leader.pod)
        expect(cut).toBeDefined()
        cut?.connected(false)
        yield* StepClock.advance("35 seconds")
        cut?.connected(true)
      }
      const now = (yield* Clock.currentTimeMillis) / 1_000
      const all = yield* fired
      expect(all.map(({ second }) => second)).toEqual(
        Array.from({ length: Math.floor(now / 10) }, (_, index) => (index + 1) * 10)
      )
      expect(Math.max(...all.map(({ late }) => late))).toBeLessThanOrEqual(20)
      expect(all.filter(({ late }) => late === 0).length).toBeGreaterThan(8)
    }).pipe(Effect.provide(TestCluster.layer))
  )

  it.scopedLive("moves to another leader at once when the leader stops cleanly", () =>
    Effect.gen(function* () {
      const first = yield* TestCluster.hire()
      yield* TestCluster.hire()
      yield* create("* * * * * *")
      yield* StepClock.advance("5500 millis")
      yield* first.stop
      yield* StepClock.advance("5 seconds")
      expect(yield* fired).toEqual(Array.from({ length: 10 }, (_, index) => ({ second: index + 1, late: 0 })))
    }).pipe(Effect.provide(TestCluster.layer))
  )
})

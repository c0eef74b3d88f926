import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { exact } from "../../src/core/Count.js"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { type CountsRow, combine } from "../../src/queue/search/CountsPg.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { fill } from "../support/ManyJobs.js"
import * as TestDatabase from "../support/TestDatabase.js"

const layer = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provideMerge(TestDatabase.layer))

const estimate = (value: number) => ({ value, kind: "estimate" }) as const
const atLeast = (value: number) => ({ value, kind: "atLeast" }) as const

describe("counts on PostgreSQL", () => {
  it.scopedLive("are exact up to a limit per queue, and estimates beyond it", () =>
    Effect.gen(function* () {
      yield* fill("big", 10_001, "pending", "yesterday")
      yield* fill("big", 3, "pending", "tomorrow")
      yield* fill("graves", 10_001, "dead", "yesterday")
      yield* fill("small", 7, "pending", "yesterday")
      yield* fill("small", 2, "dead", "yesterday")
      const { counts } = yield* JobSearch
      const [big, graves, small] = yield* counts
      expect(big).toMatchObject({
        queue: "big",
        counts: { pending: estimate(10_001), scheduled: exact(3), running: estimate(0), dead: exact(0) }
      })
      expect(graves).toMatchObject({ queue: "graves", counts: { dead: estimate(10_001), pending: exact(0) } })
      expect(small).toMatchObject({ counts: { pending: exact(7), dead: exact(2), scheduled: exact(0) } })
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("include queues whose done jobs are all older than the newest ones", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      yield* fill("slow", 1_000, "done", "yesterday")
      yield* sql`update nightshift.job set finished_at = 'yesterday'`
      yield* fill("hot", 12_000, "done", "yesterday")
      yield* sql`analyze nightshift.job`
      const { counts } = yield* JobSearch
      const [hot, slow] = yield* counts
      expect(hot?.counts.done).toEqual(estimate(12_000))
      expect(slow?.counts.done).toEqual(estimate(1_000))
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("share the rows that are read between the queues that have many", () =>
    Effect.gen(function* () {
      // More than a fair share of the rows read for 113 queues, and fewer than are counted of a single one.
      for (let index = 100; index < 213; index++) yield* fill(`q${index}`, index === 107 ? 2_000 : 5, "pending")
      const { counts } = yield* JobSearch
      const all = yield* counts
      expect(all).toHaveLength(113)
      expect(all.map(({ counts }) => counts.pending.kind)).toEqual(all.map(() => "exact"))
      expect(all[7]?.counts.pending).toEqual(exact(2_000))
    }).pipe(Effect.provide(layer))
  )
})

describe("a count that stopped at its limit", () => {
  const row: CountsRow = {
    queue: "mail",
    scheduled: 0,
    retrying: 0,
    pending: 442,
    running: 3,
    done: 40,
    dead: 0,
    cancelled: 0,
    due_cut: true,
    later_cut: false,
    done_cut: true,
    dead_cut: false,
    cancelled_cut: false,
    rows: 1_000,
    oldest: null
  }
  const counted = (state: "pending" | "done" | "running" | "retrying", value: number) =>
    [state, new Map([["mail", value]])] as const

  it("is a lower bound while the rest has not been counted", () => {
    expect(combine(row, new Map(), 0).counts).toMatchObject({
      pending: atLeast(442),
      running: atLeast(3),
      scheduled: exact(0),
      done: atLeast(40)
    })
  })

  it("is a lower bound if it has passed an older count", () => {
    const { pending, running } = combine(row, new Map([counted("pending", 441), counted("running", 3)]), 0).counts
    expect([pending, running]).toEqual([atLeast(442), estimate(3)])
  })

  it("of done jobs is the rest of the planner's estimate, if that is all that is known", () => {
    const rests = new Map([counted("pending", 600), counted("running", 10), counted("retrying", 0)])
    expect(combine(row, rests, 0).counts).toMatchObject({ pending: estimate(600), done: estimate(390) })
    expect(combine(row, new Map([...rests, counted("done", 395)]), 0).counts.done).toEqual(estimate(395))
    expect(combine({ ...row, rows: null }, rests, 0).counts.done).toEqual(atLeast(40))
  })
})

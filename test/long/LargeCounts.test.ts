import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { fill } from "../support/ManyJobs.js"
import * as TestDatabase from "../support/TestDatabase.js"

const layer = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provideMerge(TestDatabase.layer))

describe("counts of a million jobs in 113 queues", () => {
  it.scopedLive(
    "are exact for the small ones, and within five percent for all others",
    () =>
      Effect.gen(function* () {
        const { sql } = yield* Database
        yield* fill("archive", 800_000, "done", "yesterday")
        yield* fill("graves", 100_000, "dead", "yesterday")
        yield* fill("busy", 50_000, "pending", "yesterday")
        for (let index = 0; index < 110; index++) yield* fill(`small${index}`, 442 + index, "pending", "yesterday")
        yield* sql`vacuum analyze nightshift.job`
        const { counts } = yield* JobSearch
        const all = new Map((yield* counts).map(({ counts, queue }) => [queue, counts]))
        expect(all.size).toBe(113)
        for (let index = 0; index < 110; index++)
          expect(all.get(`small${index}`)?.pending).toEqual({ value: 442 + index, kind: "exact" })
        const large = [
          [all.get("archive")?.done, 800_000],
          [all.get("graves")?.dead, 100_000],
          [all.get("busy")?.pending, 50_000]
        ] as const
        for (const [count, truth] of large) {
          expect(count?.kind).toBe("estimate")
          expect(Math.abs((count?.value ?? 0) - truth) / truth).toBeLessThan(0.05)
        }
      }).pipe(Effect.provide(layer)),
    // A busy machine needs a minute to store the jobs.
    240_000
  )
})

import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { HeldLeases } from "../../src/queue/claim/HeldLeases.js"

describe("the leases of a process", () => {
  it.effect("are returned once when they have ended, at most as many as one statement should delete", () =>
    Effect.gen(function* () {
      const ids = yield* makeGenerator
      const book = new HeldLeases()
      const runs = Array.from({ length: 1_050 }, () => ({ id: ids.job(1), lease: ids.lease(1) }))
      for (const { id, lease } of runs) book.took(lease, [id])
      book.ended(runs)
      const taken = [book.takeOver(), book.takeOver(), book.takeOver(), book.takeOver()]
      expect(taken.map(({ leases }) => leases.length)).toEqual([500, 500, 50, 0])
      expect(taken.flatMap(({ leases }) => leases)).toEqual(runs.map(({ lease }) => lease))
    })
  )

  it.effect("name one job of each statement that ended jobs of the lease", () =>
    Effect.gen(function* () {
      const ids = yield* makeGenerator
      const book = new HeldLeases()
      const lease = ids.lease(1)
      const runs = Array.from({ length: 6 }, () => ({ id: ids.job(1), lease }))
      book.took(
        lease,
        runs.map(({ id }) => id)
      )
      book.ended(runs.slice(0, 3))
      expect(book.takeOver()).toEqual({ leases: [], witnesses: [] })
      book.ended(runs.slice(3))
      expect(book.takeOver()).toEqual({ leases: [lease], witnesses: [runs[0]?.id, runs[3]?.id] })
    })
  )
})

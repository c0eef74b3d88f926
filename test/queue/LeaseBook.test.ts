import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { HeldLeases } from "../../src/queue/claim/HeldLeases.js"

describe("the leases of a process", () => {
  it.effect("are returned once when they are over, never more at a time than one statement should delete", () =>
    Effect.gen(function* () {
      const ids = yield* makeGenerator
      const book = new HeldLeases()
      const runs = Array.from({ length: 1_050 }, () => ({ id: ids.job(1), lease: ids.lease(1) }))
      for (const { id, lease } of runs) book.took(lease, [id])
      book.ended(runs)
      const taken = [book.takeOver(), book.takeOver(), book.takeOver(), book.takeOver()]
      expect(taken.map(({ length }) => length)).toEqual([500, 500, 50, 0])
      expect(taken.flat()).toEqual(runs.map(({ lease }) => lease))
    })
  )
})

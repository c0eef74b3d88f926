import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { LocalQueue } from "../../src/worker/slots/LocalQueue.js"
import * as Prefetch from "../../src/worker/slots/Prefetch.js"

/** A local queue that this many slots have found empty. */
const shelfWith = (idle: number) => {
  const localQueue = new LocalQueue()
  for (let slot = 0; slot < idle; slot += 1) Effect.runFork(localQueue.waiter(() => {}).somethingToDo)
  return localQueue
}

const take = (prefetch: Prefetch.Prefetch, jobs: number) => {
  for (let job = 0; job < jobs; job += 1) prefetch.taken()
}

describe("the prefetch size", () => {
  it("is zero at first: one job for each waiting slot", () => {
    expect(Prefetch.make(8).wanted(shelfWith(8))).toBe(8)
    expect(Prefetch.make(8).wanted(shelfWith(0))).toBe(0)
  })

  it("is a tenth of a second's work once the slots run out of jobs, however long the next claim takes", () => {
    const prefetch = Prefetch.make(8)
    prefetch.claimed(1_000, [])
    take(prefetch, 8)
    prefetch.starved(1_002)
    expect(prefetch.wanted(shelfWith(8))).toBe(8 + 400)
    prefetch.claimed(1_502, [])
    expect(prefetch.wanted(shelfWith(8))).toBe(8 + 400)
  })

  it("is zero for slots with long jobs", () => {
    const prefetch = Prefetch.make(8)
    prefetch.claimed(1_000, [])
    take(prefetch, 8)
    prefetch.claimed(61_000, [])
    expect(prefetch.wanted(shelfWith(3))).toBe(3)
  })

  it("is bounded", () => {
    const prefetch = Prefetch.make(8)
    prefetch.claimed(1_000, [])
    take(prefetch, 5_000)
    prefetch.starved(1_000)
    expect(prefetch.wanted(shelfWith(8))).toBe(1_000)
  })

  it("halves while no jobs arrive", () => {
    const prefetch = Prefetch.make(8)
    prefetch.claimed(1_000, [])
    take(prefetch, 8)
    prefetch.starved(1_002)
    for (const now of [2_000, 4_000, 6_000]) prefetch.claimed(now, [])
    expect(prefetch.wanted(shelfWith(8))).toBe(8 + 100)
  })
})

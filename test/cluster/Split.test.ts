import { describe, expect, it } from "@effect/vitest"
import { evenly, shareChanges } from "../../src/cluster/Shares.js"
import type { PodId } from "../../src/core/Ids.js"

const [a, b, c] = ["a", "b", "c"].map((letter) => letter.repeat(8) as PodId) as [PodId, PodId, PodId]

const serving = (...queues: ReadonlyArray<string>) => ({ queues, draining: false })

describe("a queue's slots", () => {
  it("are split evenly, with the remainder assigned by pod id: 10 over 3 pods is 4, 3, 3", () => {
    expect([...evenly(10, [c, a, b])]).toEqual([
      [a, 4],
      [b, 3],
      [c, 3]
    ])
    expect([...evenly(2, [a, b, c]).values()]).toEqual([1, 1, 0])
    expect([...evenly(0, [a, b]).values()]).toEqual([0, 0])
    expect(evenly(10, []).size).toBe(0)
  })

  it("always add up to the total", () => {
    for (let total = 0; total <= 70; total += 1) {
      const sum = [...evenly(total, [a, b, c]).values()].reduce((left, right) => left + right)
      expect(sum).toBe(total)
    }
  })

  it("are assigned only to pods that serve the queue and are not draining", () => {
    const pods = [
      { id: a, ...serving("mail", "push") },
      { id: b, ...serving("push") },
      { id: c, queues: ["push"], draining: true }
    ]
    const queues = [
      { name: "mail", maxWorkers: 5 },
      { name: "push", maxWorkers: 5 },
      { name: "sms", maxWorkers: 5 }
    ]
    expect(shareChanges(queues, pods, [])).toEqual([
      { queue: "mail", pod: a, slots: 5 },
      { queue: "push", pod: a, slots: 3 },
      { queue: "push", pod: b, slots: 2 }
    ])
  })

  it("are not rewritten while nothing changes", () => {
    const pods = [a, b, c].map((id) => ({ id, ...serving("mail") }))
    const queues = [{ name: "mail", maxWorkers: 10 }]
    const standing = shareChanges(queues, pods, [])
    expect(shareChanges(queues, pods, standing)).toEqual([])
    expect(shareChanges([{ name: "mail", maxWorkers: 11 }], pods, standing)).toEqual([
      { queue: "mail", pod: b, slots: 4 }
    ])
  })

  it("are taken once from pods that are gone or no longer qualify", () => {
    const queues = [{ name: "mail", maxWorkers: 10 }]
    const standing = shareChanges(
      queues,
      [a, b].map((id) => ({ id, ...serving("mail") })),
      []
    )
    const change = shareChanges(queues, [{ id: b, ...serving("mail") }], standing)
    expect(change).toEqual([
      { queue: "mail", pod: b, slots: 10 },
      { queue: "mail", pod: a, slots: 0 }
    ])
    expect(shareChanges(queues, [{ id: b, ...serving("mail") }], [...change])).toEqual([])
  })

  it("stay unchanged when the queue's settings are missing", () => {
    const standing = [{ queue: "mail", pod: a, slots: 4 }]
    expect(shareChanges([], [{ id: a, ...serving("mail") }], standing)).toEqual([])
  })
})

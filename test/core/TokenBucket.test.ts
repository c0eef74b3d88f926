import { describe, expect, it } from "@effect/vitest"
import * as TokenBucket from "../../src/core/TokenBucket.js"

describe("the time budget for searches", () => {
  const make = () => TokenBucket.make({ capacity: 3_000, refill: 0.2 })

  it("is available immediately to an occasional search", () => {
    const budget = make()
    expect(budget.wait(0)).toBe(0)
    budget.spend(2_000, 2_000)
    expect(budget.wait(2_000)).toBe(0)
  })

  it("is a fifth of elapsed time for continuous searches", () => {
    const budget = make()
    let now = 0
    let searched = 0
    while (now < 600_000) {
      now += budget.wait(now) + 1_000
      searched += 1_000
      budget.spend(1_000, now)
    }
    expect(searched / now).toBeLessThan(0.23)
    expect(searched / now).toBeGreaterThan(0.18)
  })

  it("makes callers wait longer after a search that overdrew it, and refills only up to its cap", () => {
    const budget = make()
    budget.spend(5_000, 5_000)
    expect(budget.wait(5_000)).toBe(10_005)
    expect(budget.wait(15_005)).toBe(0)
    budget.spend(2_999, 1_000_000)
    expect(budget.wait(1_000_000)).toBe(0)
  })

  it("is not refilled by a clock that runs backwards", () => {
    const budget = make()
    budget.spend(4_000, 4_000)
    expect(budget.wait(1_000)).toBe(5_005)
  })
})

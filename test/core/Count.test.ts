import { describe, expect, it } from "@effect/vitest"
import * as Count from "../../src/core/Count.js"

describe("a count", () => {
  it("reads as a number, an estimate or a lower bound", () => {
    expect(Count.text(Count.exact(442))).toBe("442")
    expect(Count.text({ value: 50_000, kind: "estimate" }, (value) => value.toLocaleString("en"))).toBe("~50,000")
    expect(Count.text({ value: 442, kind: "atLeast" })).toBe("442+")
    expect(Count.text({ value: 0, kind: "estimate" })).toBe("0")
  })

  it("is added to others, and the worst of them decides how far to trust the sum", () => {
    const estimate = { value: 20, kind: "estimate" } as const
    const floor = { value: 3, kind: "atLeast" } as const
    expect(Count.sum([])).toEqual(Count.exact(0))
    expect(Count.sum([Count.exact(1), Count.exact(2)])).toEqual(Count.exact(3))
    expect(Count.sum([Count.exact(1), estimate])).toEqual({ value: 21, kind: "estimate" })
    expect(Count.sum([floor, Count.exact(1), estimate])).toEqual({ value: 24, kind: "atLeast" })
  })
})

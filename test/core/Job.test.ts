import { describe, expect, it } from "@effect/vitest"
import { type DeadReason, type Status, stateOf } from "../../src/core/StoredJob.js"

const now = 1_000
const shown = (status: Status, runAt: number, lastError?: string, reason?: DeadReason) =>
  stateOf({ status, runAt, lastError, reason }, now)

describe("the shown state of a job", () => {
  it("is pending from the exact instant it is due", () => {
    expect([shown("pending", now - 1), shown("pending", now)]).toEqual(["pending", "pending"])
  })

  it("is scheduled while its start time is in the future", () => {
    expect(shown("pending", now + 1)).toBe("scheduled")
  })

  it("is retrying after a failure, whether due or not", () => {
    expect([shown("pending", now + 1, "no"), shown("pending", now, "no")]).toEqual(["retrying", "retrying"])
  })

  it("is cancelled when an operator cancelled it", () => {
    expect([shown("dead", now, "no", "cancelled"), shown("dead", now, "no", "exhausted")]).toEqual([
      "cancelled",
      "dead"
    ])
  })

  it("is the stored state once the job has started", () => {
    for (const status of ["running", "done", "dead"] as const) {
      expect([shown(status, now + 1), shown(status, now, "no")]).toEqual([status, status])
    }
  })
})

import { describe, expect, it } from "@effect/vitest"
import { type DeadReason, type Status, stateOf } from "../../src/core/StoredJob.js"

const now = 1_000
const shown = (status: Status, runAt: number, lastError?: string, deadReason?: DeadReason) =>
  stateOf({ status, runAt, lastError, deadReason }, now)

describe("the shown state of a job", () => {
  it("is pending when it is due, from the very instant", () => {
    expect([shown("pending", now - 1), shown("pending", now)]).toEqual(["pending", "pending"])
  })

  it("is scheduled when its time is still to come", () => {
    expect(shown("pending", now + 1)).toBe("scheduled")
  })

  it("is retrying when it has failed before, due or not", () => {
    expect([shown("pending", now + 1, "no"), shown("pending", now, "no")]).toEqual(["retrying", "retrying"])
  })

  it("is cancelled when an operator cancelled it", () => {
    expect([shown("dead", now, "no", "cancelled"), shown("dead", now, "no", "exhausted")]).toEqual([
      "cancelled",
      "dead"
    ])
  })

  it("is what is stored once it has begun", () => {
    for (const status of ["running", "done", "dead"] as const) {
      expect([shown(status, now + 1), shown(status, now, "no")]).toEqual([status, status])
    }
  })
})

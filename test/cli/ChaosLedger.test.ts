import { describe, expect, it } from "@effect/vitest"
import * as ChaosLedger from "../../src/cli/chaos/ChaosLedger.js"
import type { JobId } from "../../src/core/Ids.js"

const id = "01890000-0000-7000-8000-000000000001" as JobId

const seen = (more: Partial<ChaosLedger.SeenJob> = {}): ChaosLedger.SeenJob => ({
  id,
  state: "done",
  attempt: 1,
  attempts: 5,
  runAt: "2030-01-01T00:00:00.000Z",
  startedAt: "2030-01-01T00:00:00.010Z",
  finishedAt: "2030-01-01T00:00:01.000Z",
  result: "hello",
  ...more
})

const entry = (more: Partial<ChaosLedger.Entry>): ChaosLedger.Entry => ({
  ...ChaosLedger.makeEntry(id, "hello"),
  acknowledged: true,
  last: seen(),
  ...more
})

describe("the ledger of a chaos run", () => {
  it.each([
    ["a done job", entry({})],
    ["a job that was never acknowledged and is not stored", entry({ acknowledged: false, last: undefined })],
    ["a job that the run cancelled", entry({ cancelled: true, last: seen({ state: "cancelled", result: null }) })],
    ["a job that ended again after the run requeued it", entry({ requeued: true, ended: seen({ state: "cancelled" }) })]
  ])("accepts %s", (_, given) => {
    expect(ChaosLedger.check([given])).toEqual([])
    expect(ChaosLedger.isSettled(given)).toBe(true)
  })

  it.each([
    ["a lost job", entry({ last: undefined }), /was acknowledged and is lost/],
    [
      "a job that has not ended",
      entry({ last: seen({ state: "running" }) }),
      /it is running\. Run: nightshift jobs why/
    ],
    ["a dead job", entry({ last: seen({ state: "dead" }) }), /ended as dead/],
    [
      "a cancelled job that the run did not cancel",
      entry({ last: seen({ state: "cancelled" }) }),
      /ended as cancelled/
    ],
    ["another result", entry({ last: seen({ result: "bye" }) }), /has the result "bye"; expected "hello"/],
    ["too many attempts", entry({ last: seen({ attempt: 6 }) }), /used 6 attempts; the maximum is 5/],
    ["an early start", entry({ last: seen({ startedAt: "2029-12-31T23:59:59.000Z" }) }), /before its time/],
    ["a changed end", entry({ ended: seen({ finishedAt: "2030-01-01T00:00:00.500Z" }) }), /changed after its end/]
  ])("reports %s", (_, given, expected) => {
    expect(ChaosLedger.check([given])).toEqual([expect.stringMatching(expected)])
  })
})

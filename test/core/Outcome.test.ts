import { describe, expect, it } from "@effect/vitest"
import { Duration } from "effect"
import * as Outcome from "../../src/core/Outcome.js"

describe("Outcome", () => {
  it("carries the arguments of its constructor and nothing else", () => {
    expect({ ...Outcome.done() }).toEqual({ _tag: "Done" })
    expect({ ...Outcome.done(null) }).toEqual({ _tag: "Done", result: null })
    expect({ ...Outcome.retry("no") }).toEqual({ _tag: "Retry", error: "no" })
    expect(Outcome.retry("no", Duration.seconds(1))).toMatchObject({ _tag: "Retry", after: 1_000 })
    expect({ ...Outcome.dead("never") }).toEqual({ _tag: "Dead", error: "never" })
    expect(Outcome.snooze(Duration.seconds(2))).toMatchObject({ _tag: "Snooze", after: 2_000 })
    expect({ ...Outcome.cancelled }).toEqual({ _tag: "Cancelled" })
  })

  it("throttles the whole queue by default", () => {
    expect({ ...Outcome.throttled() }).toEqual({ _tag: "Throttled", scope: "queue" })
    expect({ ...Outcome.throttled({ scope: "key" }) }).toEqual({ _tag: "Throttled", scope: "key" })
  })

  it("is distinguished from a handler's plain result", () => {
    const outcomes = [
      Outcome.done(1),
      Outcome.retry("no"),
      Outcome.dead("no"),
      Outcome.throttled(),
      Outcome.snooze(Duration.zero),
      Outcome.cancelled
    ]
    for (const outcome of outcomes) expect(Outcome.isOutcome(outcome)).toBe(true)
    const results = [
      undefined,
      null,
      0,
      "Done",
      [],
      {},
      { _tag: "Done" },
      { _tag: "Retry", error: "no" },
      new Error("no")
    ]
    for (const result of results) expect(Outcome.isOutcome(result)).toBe(false)
  })
})

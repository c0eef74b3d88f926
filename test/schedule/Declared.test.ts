import { describe, expect, it } from "@effect/vitest"
import { Schema } from "effect"
import { z } from "zod"
import { job } from "../../src/client/index.js"
import * as Job from "../../src/queue/Job.js"
import * as Schedule from "../../src/schedule/Schedule.js"

// A schedule may fire before any process has registered its kind, so it carries what the kind declares.

interface Declared {
  readonly queue?: string | undefined
  readonly attempts?: number | undefined
}

const forms = {
  "a schedule with Effect": (kind: Declared, own: Declared) =>
    Schedule.make("nightly", {
      job: Job.make("report", { payload: Schema.Struct({}), ...kind }),
      payload: {},
      cron: "0 3 * * *",
      ...own
    }),
  "a schedule with promises": (kind: Declared, own: Declared) =>
    job("report", { payload: z.object({}), ...kind }).schedule("nightly", { payload: {}, cron: "0 3 * * *", ...own })
}

describe.each(Object.entries(forms))("%s", (_, make) => {
  const definitionOf = (kind: Declared, own: Declared = {}) => make(kind, own).definition

  it("carries the queue and the attempts that its kind declares", () => {
    expect(definitionOf({ queue: "mail", attempts: 9 })).toMatchObject({ queue: "mail", attempts: 9 })
  })

  it("prefers its own", () => {
    expect(definitionOf({ queue: "mail", attempts: 9 }, { queue: "slow", attempts: 2 })).toMatchObject({
      queue: "slow",
      attempts: 2
    })
  })

  it("leaves out what its kind does not declare, so that routes and the kind's defaults apply when it fires", () => {
    expect(definitionOf({})).toEqual({
      name: "nightly",
      kind: "report",
      payload: {},
      cron: "0 3 * * *",
      timezone: "UTC",
      overlap: "allow",
      missed: "one",
      paused: false,
      queue: undefined,
      attempts: undefined
    })
  })
})

import { describe, expect, it } from "vitest"
import { z } from "zod"
import {
  type BatchOptions,
  type BulkOptions,
  type ConnectOptions,
  type DedupeOptions,
  type DurationInput,
  type EnqueueManyOptions,
  type EnqueueOptions,
  type ExecutionFilter,
  type JobFilter,
  type JobListOptions,
  type JobOptions,
  job,
  type QueueChange,
  type ResultOptions,
  type RetryOptions,
  type ScheduleOptions,
  type StartOptions,
  type StepOptions,
  type WaitOptions,
  type WorkerOptions,
  type WorkflowOptions
} from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"

// What the compiler accepts. The bodies run only so that the test also checks the values.

describe("durations from configuration", () => {
  it("compile with a type assertion, and lists with `as const`", async () => {
    const settings: Readonly<Record<string, string | undefined>> = { TIMEOUT: "5m" }
    const backoff = ["1m", "5m"] as const
    const timeout = (settings.TIMEOUT ?? "30s") as DurationInput
    expect(job("configured", { payload: z.object({}), timeout, backoff }).name).toBe("configured")
    // @ts-expect-error: a string may be anything.
    expect(() => job("unchecked", { payload: z.object({}), timeout: settings.WAIT ?? "soon" })).toThrow(
      /^timeout of "unchecked" must be a duration like/
    )
  })
})

/** Names of the properties of T that may be absent but not undefined. */
type Strict<T> = {
  [K in keyof T]-?: object extends Pick<T, K> ? ({ [P in K]: undefined } extends Pick<T, K> ? never : K) : never
}[keyof T]

describe("an option that is undefined", () => {
  it("compiles with exactOptionalPropertyTypes", () => {
    const found: Strict<{ readonly strict?: string; readonly loose?: string | undefined }> = "strict"
    type OfAll =
      | Strict<EnqueueOptions>
      | Strict<DedupeOptions>
      | Strict<EnqueueManyOptions<unknown>>
      | Strict<JobOptions<unknown, unknown, unknown, unknown>>
      | Strict<RetryOptions>
      | Strict<ScheduleOptions<string>>
      | Strict<BatchOptions>
      | Strict<JobFilter>
      | Strict<JobListOptions>
      | Strict<BulkOptions>
      | Strict<ExecutionFilter>
      | Strict<ConnectOptions>
      | Strict<WorkerOptions>
      | Strict<ResultOptions>
      | Strict<StartOptions>
      | Strict<StepOptions<unknown>>
      | Strict<WaitOptions<unknown>>
      | Strict<WorkflowOptions<unknown, unknown, unknown>>
      | Strict<QueueChange>
    const none: [OfAll] extends [never] ? true : OfAll = true
    expect([found, none]).toEqual(["strict", true])
  })

  it("is as if it were absent", async () => {
    const options = { queue: undefined, retry: undefined, timeout: undefined, priority: undefined, version: undefined }
    const plain = job("plain", { payload: z.object({}), ...options, onDead: undefined })
    const nightly = plain.schedule("nightly", { payload: {}, cron: "@daily", timezone: undefined, paused: undefined })
    await using shift = await testShift({ handlers: [plain.handle(() => "ran")], schedules: [nightly] })
    expect(await shift.schedules.get("nightly")).toMatchObject({ timezone: "UTC", paused: false, overlap: "allow" })
    const { id } = await shift.enqueue(
      plain,
      {},
      {
        key: undefined,
        dedupe: undefined,
        queue: undefined,
        attempts: undefined,
        delay: undefined,
        runAt: undefined
      }
    )
    expect(await shift.result(id, { timeout: undefined })).toBe("ran")
    expect(await shift.job(id)).toMatchObject({ queue: "default", attempts: 5, key: undefined })
  })
})

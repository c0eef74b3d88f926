import { type } from "arktype"
import { Schema } from "effect"
import * as v from "valibot"
import { afterAll, beforeAll, describe, expect, expectTypeOf, it } from "vitest"
import { z } from "zod"
import {
  connect,
  InvalidPayloadError,
  type Job,
  job,
  type Shift,
  type StandardSchema,
  worker,
  workflow
} from "../../src/client/index.js"
import * as PayloadCheck from "../../src/queue/enqueue/PayloadCheck.js"
import { testShift } from "../../src/testing/index.js"
import { useDatabase } from "./ClientDatabase.js"

// The same payload in every validator: a text that becomes a number, and a list of choices that may be missing.

const database = useDatabase()
let shift: Shift
beforeAll(async () => {
  shift = await connect(database.url(), { log: false })
})
afterAll(() => shift.close())

interface Input {
  readonly order: string
  readonly cents: string
  readonly size?: "s" | "m" | undefined
}
interface Output {
  readonly order: string
  readonly cents: number
  readonly size?: "s" | "m" | undefined
}

const jobs = {
  zod: job("by_zod", {
    payload: z.object({
      order: z.string().min(2),
      cents: z.string().regex(/^\d+$/).transform(Number),
      size: z.enum(["s", "m"]).optional()
    }),
    queue: "checked"
  }),
  valibot: job("by_valibot", {
    payload: v.object({
      order: v.pipe(v.string(), v.minLength(2)),
      cents: v.pipe(v.string(), v.regex(/^\d+$/), v.transform(Number)),
      size: v.optional(v.picklist(["s", "m"]))
    }),
    queue: "checked"
  }),
  arktype: job("by_arktype", {
    payload: type({ order: "string >= 2", cents: "string.numeric.parse", "size?": "'s' | 'm'" }),
    queue: "checked"
  }),
  effect: job("by_effect", {
    payload: Schema.standardSchemaV1(
      Schema.Struct({
        order: Schema.String.pipe(Schema.minLength(2)),
        cents: Schema.NumberFromString,
        size: Schema.optional(Schema.Literal("s", "m"))
      })
    ),
    queue: "checked"
  })
}

/** A validator that answers later, as one that asks a database would. */
const later: StandardSchema<{ readonly order: string }> = {
  "~standard": {
    version: 1,
    vendor: "later",
    validate: async (value) =>
      typeof (value as { order?: unknown }).order === "string"
        ? { value: value as { readonly order: string } }
        : { issues: [{ message: "must be text", path: [{ key: "order" }] }] }
  }
}

describe("payload validators", () => {
  it.each(Object.entries(jobs))(
    "%s: the enqueued payload is stored, and the handler gets the validated output",
    async (name, each) => {
      const definition = each as Job<Input, Output, unknown>
      const seen: Array<unknown> = []
      const handler = definition.handle((payload) => void seen.push(payload))
      await using _ = await worker(shift, { handlers: [handler] })
      const { id } = await shift.enqueue(definition, { order: "A-17", cents: "250" })
      await shift.result(id, { timeout: "30s" })
      expect((await shift.job(id)).payload).toEqual({ order: "A-17", cents: "250" })
      expect(seen).toEqual([{ order: "A-17", cents: 250 }])
      const refused = await shift.enqueue(definition, { order: "x", cents: "250" }).catch((error: unknown) => error)
      expect(refused, name).toBeInstanceOf(InvalidPayloadError)
      expect(refused).toMatchObject({ issues: [{ path: ["order"], message: expect.any(String) }] })
      // The other doors check by what the worker stored with the kind.
      const { rows } = await database
        .pool()
        .query("select schema from nightshift.kind where name = $1", [definition.name])
      const fits = PayloadCheck.ofSchema(JSON.stringify(rows[0].schema))
      expect(fits({ order: "A-17", cents: "250" })).toBeUndefined()
      expect(fits({ order: "A-17", cents: 250 })).toMatchObject({ field: "payload.cents" })
      expect(fits({ order: "A-17" })).toMatchObject({ reason: expect.stringContaining("cents") })
      expect(fits({ order: "A-17", cents: "250", size: "xl" })).toMatchObject({ field: "payload.size" })
    }
  )

  it("may be asynchronous, at enqueue and in the worker", async () => {
    const slow = job("by_promise", { payload: later, queue: "later" })
    const seen: Array<unknown> = []
    await using _ = await worker(shift, { handlers: [slow.handle((payload) => void seen.push(payload))] })
    const { id } = await shift.enqueue(slow, { order: "A-17" })
    await shift.result(id, { timeout: "30s" })
    expect(seen).toEqual([{ order: "A-17" }])
    await expect(shift.enqueue(slow, { order: 1 as never })).rejects.toMatchObject({ issues: [{ path: ["order"] }] })
    const { rows } = await database.pool().query("select nightshift.enqueue('by_promise', '{}') as id")
    await expect(shift.result(rows[0].id, { timeout: "30s" })).rejects.toMatchObject({
      code: "JOB_DEAD",
      lastError: expect.stringContaining("payload.order: must be text")
    })
  })

  it("let the worker refuse payloads from other entry points, without using attempts", async () => {
    const { rows } = await database
      .pool()
      .query(`select nightshift.enqueue('by_zod', '{"order": "A-17", "cents": "much"}') as id`)
    await using _ = await worker(shift, { handlers: [jobs.zod.handle(() => {})] })
    await expect(shift.result(rows[0].id, { timeout: "30s" })).rejects.toMatchObject({
      reason: "undecodable",
      attempt: 0,
      lastError: expect.stringMatching(/^payload\.cents: Invalid string/),
      message: expect.stringMatching(
        /is dead \(undecodable\): payload\.cents: Invalid string.*[^.]\. Fix the cause, then requeue it\.$/
      )
    })
  })
})

describe("the result of a workflow", () => {
  it("has the type and the value of its validator", async () => {
    const result = z.object({ at: z.coerce.date() })
    const dated = workflow("dated", { payload: z.object({}), result }, async () => ({ at: "2030-01-01T00:00:00Z" }))
    await using tested = await testShift({ handlers: [dated] })
    await tested.start(dated, {}, { key: "1" })
    const read = await tested.execution(dated, "1").result()
    expectTypeOf(read).toEqualTypeOf<{ at: Date }>()
    expect(read).toEqual({ at: new Date("2030-01-01T00:00:00Z") })
  })
})

describe("the types of a signal", () => {
  it("are those of its validator", () => {
    const approved = workflow("approved", { payload: z.object({}) }, async (_, step) => {
      const zod = await step.waitFor("zod", { schema: z.object({ by: z.string(), at: z.coerce.date() }) })
      expectTypeOf(zod).toEqualTypeOf<{ by: string; at: Date }>()
      const valibot = await step.waitFor("valibot", { schema: v.object({ by: v.string() }) })
      expectTypeOf(valibot).toEqualTypeOf<{ by: string }>()
      const arktype = await step.waitFor("arktype", { schema: type({ by: "string" }) })
      expectTypeOf(arktype).toEqualTypeOf<{ by: string }>()
      const late = await step.waitFor("late", { schema: z.object({ by: z.string() }), timeout: "1d" })
      expectTypeOf(late).toEqualTypeOf<{ by: string } | undefined>()
      expectTypeOf(await step.waitFor("any")).toEqualTypeOf<unknown>()
    })
    expectTypeOf(approved).toBeFunction()
  })

  it("let the step fail if the value is invalid, and keep the first value until a retry", async () => {
    const approval = workflow("approval", { payload: z.object({}) }, async (_, step) => {
      const { by } = await step.waitFor("approval", { schema: z.object({ by: z.string() }) })
      return by
    })
    await using tested = await testShift({ handlers: [approval] })
    const run = await tested.start(approval, {}, { key: "1" })
    await tested.settle()
    expect(await run.signal("approval", { by: 7 })).toBe("completed")
    expect(await run.signal("approval", { by: "Ada" })).toBe("appended")
    await expect(run.result()).rejects.toThrow(
      /The value of the signal "approval" is invalid: value\.by: .*\. A retry of the execution waits for this signal again/
    )
    await run.retry()
    await tested.settle()
    expect(await run.signal("approval", { by: "Ada" })).toBe("completed")
    expect(await run.result()).toBe("Ada")
  })
})

describe("the types of a job", () => {
  it("are those of its validator: the input to enqueue, the output in the handler", () => {
    jobs.zod.handle((payload) => {
      expectTypeOf(payload).toEqualTypeOf<{ order: string; cents: number; size?: "s" | "m" | undefined }>()
    })
    jobs.valibot.handle((payload) => {
      expectTypeOf(payload).toEqualTypeOf<{ order: string; cents: number; size?: "s" | "m" | undefined }>()
    })
    jobs.arktype.handle((payload) => {
      expectTypeOf(payload).toEqualTypeOf<{ order: string; cents: number; size?: "s" | "m" }>()
    })
    jobs.effect.handle((payload) => {
      expectTypeOf(payload).toEqualTypeOf<{
        readonly order: string
        readonly cents: number
        readonly size?: "s" | "m" | undefined
      }>()
    })
    const wrong = () => [
      // @ts-expect-error: cents are text when they are enqueued
      shift.enqueue(jobs.zod, { order: "A-17", cents: 250 }),
      // @ts-expect-error: there is no such size
      shift.enqueue(jobs.valibot, { order: "A-17", cents: "250", size: "xl" }),
      // @ts-expect-error: an order is missing
      shift.enqueue(jobs.arktype, { cents: "250" }),
      // @ts-expect-error: cents are text when they are enqueued
      shift.enqueue(jobs.effect, { order: "A-17", cents: 250 }),
      // @ts-expect-error: no duration
      shift.enqueue(jobs.zod, { order: "A-17", cents: "250" }, { delay: "5 fortnights" })
    ]
    expectTypeOf(wrong).toBeFunction()
  })

  it("include the result", () => {
    const measured = job("measured", {
      payload: z.object({}),
      result: z.object({ at: z.string().transform((text) => new Date(text)) })
    })
    const use = async () => {
      const { id } = await shift.enqueue(measured, {})
      expectTypeOf(await shift.result(id)).toEqualTypeOf<{ at: Date }>()
      expectTypeOf(await shift.result("some id")).toEqualTypeOf<unknown>()
      const [first] = await shift.enqueueMany(measured, [{}])
      if (first !== undefined) expectTypeOf(await shift.result(first.id)).toEqualTypeOf<{ at: Date }>()
    }
    expectTypeOf(use).toBeFunction()
    measured.handle(async () => ({ at: "2026-01-01" }))
    // @ts-expect-error: the handler returns what the result's validator takes
    measured.handle(async () => ({ at: new Date(0) }))
    // @ts-expect-error: the result is missing
    measured.handle(async () => {})
  })
})

import { describe, expect, it } from "@effect/vitest"
import { Effect, LogLevel, Schema } from "effect"
import { z } from "zod"
import { job, workflow } from "../../src/client/index.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import * as Logging from "../../src/telemetry/Logging.js"
import { TestShift } from "../../src/testing/effect.js"
import { type PromiseTestShiftOptions, testShift } from "../../src/testing/index.js"

type Line = Readonly<Record<string, unknown>>

const sinkOf = (lines: Array<Line>) => {
  const write = (msg: string, fields: Line) => void lines.push({ msg, ...fields })
  return { debug: write, info: write, warn: write, error: write }
}

/** The lines of the handlers, without those of the worker itself. */
const linesOf = async (
  handlers: PromiseTestShiftOptions["handlers"],
  act: (shift: Awaited<ReturnType<typeof testShift>>) => Promise<unknown>,
  mask: ReadonlyArray<string> = []
) => {
  const lines: Array<Line> = []
  {
    await using shift = await testShift({ handlers, mask, log: sinkOf(lines), logLevel: "debug" })
    await act(shift)
    await shift.settle()
  }
  return lines.filter(({ msg }) => String(msg).startsWith("said"))
}

const charge = job("charge", { payload: z.object({ pin: z.string() }), queue: "money" })

describe("the log of a handler", () => {
  it("has the job, its kind, queue and attempt on every line, and the fields of the call", async () => {
    let id = ""
    const charging = charge.handle(async (_, { log }) => {
      log.debug("said nothing")
      log.info("said where", { order: 7 })
      log.warn("said kind", { kind: "vip", job: 5 })
      log.error("said why", { error: new TypeError("no") })
      await Promise.resolve()
      log.error("said why", new TypeError("no") as never)
    })
    const lines = await linesOf([charging], async (shift) => {
      id = (await shift.enqueue(charge, { pin: "4711" })).id
    })
    const facts = { job: id, kind: "charge", queue: "money", attempt: 1, process: expect.any(String) }
    const error = expect.stringMatching(/^TypeError: no\n +at /)
    expect(lines).toEqual([
      { msg: "said nothing", ...facts },
      { msg: "said where", ...facts, order: 7 },
      { msg: "said kind", ...facts, fields: { kind: "vip", job: 5 } },
      { msg: "said why", ...facts, error },
      { msg: "said why", ...facts, error }
    ])
  })

  it("hides the masked fields of the payload", async () => {
    const charging = charge.handle(async ({ pin }, { log }) => log.info(`said ${pin}`, { deep: [`pin ${pin}`], pin }))
    const lines = await linesOf([charging], (shift) => shift.enqueue(charge, { pin: "4711" }), ["pin"])
    expect(lines).toMatchObject([{ msg: "said [masked]", deep: ["pin [masked]"], pin: "[masked]" }])
  })

  it("never fails a job because of what it logs", async () => {
    const charging = charge.handle(async (_, { log }) => {
      log.info("said too much", new Proxy({}, { getPrototypeOf: () => JSON.parse("{") }))
      log.info("said it", {
        get all() {
          throw new Error("no")
        }
      })
      log.info("said less", { amount: 5n })
    })
    const lines = await linesOf([charging], async (shift) => {
      const { id } = await shift.enqueue(charge, { pin: "" })
      await shift.result(id)
    })
    expect(lines).toMatchObject([
      { msg: "said too much [unreadable]" },
      { msg: "said it [unreadable]" },
      { amount: "5" }
    ])
  })

  it("has the execution and the step in the code of a step", async () => {
    const order = workflow("order", { payload: z.object({ id: z.string() }), key: ({ id }) => id }, async (_, step) => {
      await step.run("charge", ({ log }) => log.info("said so", { amount: 5, step: 3 }), {
        undo: (_, { log }) => log.warn("said no")
      })
      throw new Error("no stock")
    })
    const lines = await linesOf([order], async (shift) => {
      await shift.start(order, { id: "A-17" })
      await shift.drain()
    })
    const facts = { kind: "order", execution: "order/A-17", job: expect.any(String) }
    expect(lines).toMatchObject([
      { msg: "said so", ...facts, step: "charge", amount: 5, fields: { step: 3 } },
      { msg: "said no", ...facts }
    ])
  })

  it.effect("is Effect.log in a handler of Effect", () =>
    Effect.gen(function* () {
      const lines: Array<Line> = []
      const kind = Job.make("mail", { payload: Schema.Struct({}), queue: "post" })
      const sending = Handler.make(kind, () =>
        Effect.gen(function* () {
          yield* Effect.log("said one")
          yield* Effect.fork(Effect.log("said two")).pipe(Effect.annotateLogs({ job: "mine", order: 7 }))
          yield* Effect.yieldNow()
        })
      )
      yield* Effect.gen(function* () {
        yield* kind.enqueue({})
        yield* (yield* TestShift).settle
      }).pipe(
        Effect.provide(TestShift.layer({ handlers: [sending], logLevel: LogLevel.Info })),
        Effect.provide(Logging.to(sinkOf(lines), []))
      )
      const facts = { kind: "mail", queue: "post", attempt: 1, job: expect.stringMatching(/^[0-9a-f-]{36}$/) }
      expect(lines.filter(({ msg }) => String(msg).startsWith("said"))).toMatchObject([
        { msg: "said one", ...facts },
        { msg: "said two", ...facts, order: 7, fields: { job: "mine" } }
      ])
    })
  )
})

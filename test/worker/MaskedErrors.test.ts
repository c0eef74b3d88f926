import { describe, expect, it } from "@effect/vitest"
import { Effect, Logger, LogLevel, Schema } from "effect"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import { Queue } from "../../src/queue/Queue.js"
import * as LogLine from "../../src/telemetry/LogLine.js"
import * as Masking from "../../src/telemetry/Masking.js"
import { TestShift } from "../../src/testing/TestShift.js"

const payload = { name: "Ada", password: "hunter2", pin: 4711, contact: { email: 'ada"1"@example.org' } }
const mask = ["password", "email", "pin"]
const secrets = /hunter|4711|ada"1"|ada\\"1|example\.org/

/** Runs the handler and returns the stored job and every log line. */
const leftBy = (handler: Handler.Handler<never>) =>
  Effect.gen(function* () {
    const lines: Array<string> = []
    const lineOf = LogLine.make(mask)
    const logger = Logger.make((options) => void lines.push(LogLine.json(lineOf(options))))
    const job = yield* Effect.gen(function* () {
      const queue = yield* Queue
      const shift = yield* TestShift
      const [stored] = yield* queue.enqueue([
        { kind: handler.kind.name, version: 1, payload, queue: "default", attempts: 1 }
      ])
      yield* shift.drain
      return yield* shift.job(stored?.id as never)
    }).pipe(
      Effect.provide(TestShift.layer({ handlers: [handler], queues: ["default"], mask, logLevel: LogLevel.Info })),
      Effect.provide(Logger.replace(Logger.defaultLogger, logger))
    )
    return { job, lines: lines.join("\n") }
  })

const anything = Job.make("anything", { payload: Schema.Unknown })

describe("the values of fields named in NIGHTSHIFT_MASK, after an attempt", () => {
  it.effect.each([
    ["another type", Schema.Struct({ name: Schema.String, password: Schema.Int })],
    ["no struct at all", Schema.Number],
    ["a number", Schema.Struct({ pin: Schema.String })],
    ["deep inside", Schema.Struct({ contact: Schema.Struct({ email: Schema.Boolean }) })]
  ] as ReadonlyArray<readonly [string, Schema.Schema.AnyNoContext]>)(
    "are stored and logged nowhere when the payload cannot be decoded: %s",
    ([, schema]) =>
      Effect.gen(function* () {
        const kind = Job.make("strict", { payload: schema })
        const { job, lines } = yield* leftBy(Handler.make(kind, () => Effect.void) as Handler.Handler<never>)
        expect(job).toMatchObject({ reason: "undecodable", payload })
        expect(job.lastError).toMatch(/xpected/)
        expect(JSON.stringify([job.lastError, job.history])).not.toMatch(secrets)
        expect(lines).not.toMatch(secrets)
      })
  )

  it.effect.each([
    ["fails", () => Effect.fail(new Error(`no mailbox ${payload.contact.email} for ${JSON.stringify(payload)}`))],
    [
      "fails with a cause",
      () =>
        Effect.fail(new Error("no mailbox", { cause: new Error(`550 ${payload.contact.email} pin=${payload.pin}`) }))
    ],
    ["dies", () => Effect.die(new Error(`pin=${payload.pin} password: ${payload.password}`))],
    [
      "logs",
      () =>
        Effect.zipRight(Effect.logError("no mailbox", new Error(payload.contact.email)), Effect.fail(new Error("x")))
    ],
    [
      "logs text",
      () => Effect.zipRight(Effect.log(`to ${payload.contact.email}`, { pin: 4711 }), Effect.fail(new Error("x")))
    ],
    [
      "logs a cause",
      () => Effect.tapErrorCause(Effect.fail(new Error(`pin ${payload.pin}`)), (cause) => Effect.logError(cause))
    ]
  ] as const)("are stored and logged nowhere when the handler %s", ([act, run]) =>
    Effect.gen(function* () {
      const { job, lines } = yield* leftBy(Handler.make(anything, run) as Handler.Handler<never>)
      expect(job).toMatchObject({ state: "dead", reason: "exhausted" })
      expect(JSON.stringify([job.lastError, job.history])).not.toMatch(secrets)
      expect(lines).not.toMatch(secrets)
      if (act.startsWith("logs")) expect(lines).toContain(Masking.masked)
    })
  )
})

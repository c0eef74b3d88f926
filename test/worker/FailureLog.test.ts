import { describe, expect, it } from "@effect/vitest"
import { Data, Effect, Logger, LogLevel, Schema } from "effect"
import { z } from "zod"
import { ofRecipe } from "../../src/client/Handlers.js"
import { workflow } from "../../src/client/index.js"
import * as Backoff from "../../src/core/Backoff.js"
import * as Handler from "../../src/handlers/Handler.js"
import type { Events } from "../../src/queue/events/Events.js"
import * as Job from "../../src/queue/Job.js"
import { Queue } from "../../src/queue/Queue.js"
import type { Transactions } from "../../src/queue/Transactions.js"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import type { RateLimits } from "../../src/rate-limits/RateLimits.js"
import * as LogLine from "../../src/telemetry/LogLine.js"
import { TestShift } from "../../src/testing/TestShift.js"

const Kind = Job.make("mail", {
  payload: Schema.Struct({ to: Schema.String }),
  attempts: 2,
  backoff: Backoff.fixed("10 seconds")
})

class Unreachable extends Data.TaggedError("Unreachable")<{ readonly message: string }> {}

const sending = Handler.make(Kind, ({ to }) =>
  to === "ada" ? Effect.void : Effect.fail(new Unreachable({ message: to }))
)

/** Every log line of jobs, with its level and the job's kind and attempt. */
const linesOf = <A>(
  program: Effect.Effect<A, unknown, TestShift | Queue | Workflows>,
  handler: Handler.Handler<Workflows | Transactions | Queue | Events | RateLimits> = sending,
  mask: ReadonlyArray<string> = []
) =>
  Effect.gen(function* () {
    const lines: Array<string> = []
    const lineOf = LogLine.make(mask)
    const logger = Logger.make((options) => {
      const { attempt, error, kind, level, msg } = lineOf(options)
      if (kind !== undefined) lines.push(`${level} ${kind} ${attempt}: ${msg} [${error}]`)
    })
    yield* program.pipe(
      Effect.provide(
        TestShift.layer({ allowChanged: true, handlers: [handler], queues: ["default"], logLevel: LogLevel.Info })
      ),
      Effect.provide(Logger.replace(Logger.defaultLogger, logger))
    )
    return lines
  })

/** The lines of an execution whose code changes while it sleeps. */
const linesOfChanged = (key: string, mask?: ReadonlyArray<string>) => {
  const code = { first: "charge" }
  const order = workflow("order", { payload: z.object({ email: z.string() }) }, async (_, step) => {
    await step.run(code.first, () => 1)
    await step.sleep("nap", "1h")
  })
  const job = { kind: "order", version: 1, queue: "default", payload: { email: key }, attempts: 5 }
  const program = Effect.gen(function* () {
    const shift = yield* TestShift
    yield* (yield* Workflows).start({ ...job, execution: `order/${key}` })
    yield* shift.settle
    code.first = "pay"
    yield* shift.advance("1 hour")
  })
  return linesOf(program, ofRecipe(order), mask)
}

describe("the log", () => {
  it.effect("hides masked fields of the payload in the id of an execution", () =>
    Effect.gen(function* () {
      const [line] = yield* linesOfChanged("ada@example.org", ["email"])
      expect(line).toMatch(
        /execution order\/\[masked\] is suspended\..* `nightshift workflows retry order\/\[masked\]`/
      )
    })
  )

  it.effect("has executions whose code has changed, with the step and what to do", () =>
    Effect.gen(function* () {
      expect(yield* linesOfChanged("A-17")).toEqual([
        expect.stringMatching(
          /^warn order 1: execution order\/A-17 is suspended\. It is tried again in 1s; `nightshift workflows retry order\/A-17` tries it now\. \[The code has changed: step "charge" is recorded, but its code does "pay" instead\. Deploy code .* fork the execution\..*\]$/
        )
      ])
    })
  )

  it.effect("has failed attempts and deaths, at most one of each per kind and ten seconds", () =>
    Effect.gen(function* () {
      const lines = yield* linesOf(
        Effect.gen(function* () {
          const shift = yield* TestShift
          for (const to of ["bob", "eve", "ada", "eve"]) yield* Kind.enqueue({ to })
          yield* shift.settle
          yield* shift.advance("10 seconds")
          yield* Kind.enqueue({ to: "kim" })
          yield* shift.settle
        })
      )
      expect(lines).toEqual([
        "warn mail 1: a job failed (attempt 1 of 2, retry in 10s) [Unreachable: bob]",
        "error mail 2: a job is dead (exhausted) [Unreachable: bob]",
        "warn mail 1: a job failed (attempt 1 of 2, retry in 10s), and 2 more since the last line [Unreachable: kim]"
      ])
    })
  )

  it.effect("has delays of less than a second in milliseconds", () =>
    Effect.gen(function* () {
      const quick = Job.make("quick", {
        payload: Schema.Struct({}),
        attempts: 2,
        backoff: Backoff.fixed("200 millis")
      })
      const lines = yield* linesOf(
        Effect.gen(function* () {
          const shift = yield* TestShift
          yield* quick.enqueue({})
          yield* shift.settle
        }),
        Handler.make(quick, () => Effect.fail(new Unreachable({ message: "bob" })))
      )
      expect(lines).toEqual(["warn quick 1: a job failed (attempt 1 of 2, retry in 200ms) [Unreachable: bob]"])
    })
  )

  it.effect("has jobs that cannot be decoded, and jobs whose kind has no handler", () =>
    Effect.gen(function* () {
      const lines = yield* linesOf(
        Effect.gen(function* () {
          const shift = yield* TestShift
          const queue = yield* Queue
          const job = { version: 1, queue: "default", payload: {}, attempts: 2 }
          yield* queue.enqueue([{ ...job, kind: "mail" }])
          yield* queue.enqueue([{ ...job, kind: "fax" }])
          yield* shift.settle
        })
      )
      expect(lines).toHaveLength(2)
      expect(lines[0]).toMatch(/^error mail 1: a job is dead \(undecodable\) \[.+/)
      expect(lines[1]).toBe(
        'warn fax 1: returned a job to the queue for another process [this process has no handler for the kind "fax"]'
      )
    })
  )
})

import { Effect, Schema } from "effect"
import { expect, it } from "vitest"
import { z } from "zod"
import { connect, job, Outcome, worker } from "../../src/client/index.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as JobRequests from "../../src/queue/enqueue/JobRequests.js"
import * as Job from "../../src/queue/Job.js"
import { Queue } from "../../src/queue/Queue.js"
import { TestShift } from "../../src/testing/TestShift.js"
import { useDatabase } from "./ClientDatabase.js"

const database = useDatabase()

it("a job that SQL enqueued has the follow-up that onDead computes from its payload", async () => {
  let sorry: (seen: unknown) => void = () => {}
  const apologised = new Promise<unknown>((resolve) => {
    sorry = resolve
  })
  const apologise = job("apologise", { payload: z.object({ email: z.string() }) })
  const charge = job("charge", {
    payload: z.object({ email: z.string() }),
    onDead: ({ email }) => apologise.followUp({ email })
  })
  await using shift = await connect(database.url(), { log: false })
  await using _ = await worker(shift, {
    handlers: [
      charge.handle(() => Outcome.dead("no funds")),
      apologise.handle((payload, { meta }) => sorry({ payload, meta }))
    ]
  })
  const { rows } = await database.pool().query(`select nightshift.enqueue('charge', '{"email": "a@b.c"}') as id`)
  expect(await apologised).toEqual({
    payload: { email: "a@b.c" },
    meta: { follows: rows[0].id, reason: "rejected", error: "no funds" }
  })
})

it("a job that a process without the code enqueued has the follow-up that onDead computes", async () => {
  const After = Job.make("after", { payload: Schema.Struct({ of: Schema.NumberFromString }) })
  const Dies = Job.make("dies", {
    payload: Schema.Struct({ n: Schema.NumberFromString }),
    onDead: ({ n }) => ({ kind: "after", version: 1, queue: "default", attempts: 1, payload: { of: String(n + 1) } })
  })
  const seen: Array<number> = []
  await Effect.gen(function* () {
    const shift = yield* TestShift
    yield* shift.settle
    const jobs = yield* JobRequests.resolve([{ kind: "dies", payload: { n: "1" } }], { force: false, check: true })
    yield* Effect.flatMap(Queue, (queue) => queue.enqueue(jobs))
    yield* shift.settle
    expect(seen).toEqual([2])
  }).pipe(
    Effect.provide(
      TestShift.layer({
        handlers: [
          Handler.make(Dies, () => Effect.succeed(Outcome.dead("no"))),
          Handler.make(After, ({ of }) => Effect.sync(() => void seen.push(of)))
        ]
      })
    ),
    Effect.scoped,
    Effect.runPromise
  )
})

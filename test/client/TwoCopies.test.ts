import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { Effect, Layer, Redacted, Schema } from "effect"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import type * as source from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"
import { root } from "../support/Nightshift.js"
import { useDatabase } from "./ClientDatabase.js"

// The built `nightshift/client` has its own copy of Effect, and so has the command line. The modules of src/ use that of
// node_modules, like `nightshift` does.

const built = (name: string) => import(pathToFileURL(join(root, "dist", `${name}.js`)).href)

type Client = typeof source
type Library = typeof import("../../src/index.js")

const client: Client = await built("client")
const library: Library = await built("index")

describe("a handler that another copy of nightshift/client made", () => {
  const limit = client.RateLimit.make("mail", { capacity: 1, rate: 1 })
  const next = client.job("next", { payload: z.object({ n: z.number() }) })
  const send = client.job("send", { payload: z.object({ to: z.string() }), attempts: 2, backoff: "10s" })

  it("runs with its queue, retries, limits, outcomes and follow-ups", async () => {
    const seen: Array<unknown> = []
    await using shift = await testShift({
      limits: [limit],
      handlers: [
        next.handle(({ n }) => n + 1),
        send.handle(async ({ to }, context) => {
          await context.acquire(limit)
          seen.push(context.attempt)
          if (to === "nobody") return client.Outcome.dead("no address")
          if (context.attempt === 1) return client.Outcome.retry("busy", "1m")
          return (await context.enqueue(next, { n: 1 })).outcome
        })
      ]
    })
    const sent = await shift.enqueue(send, { to: "Ada" })
    const refused = await shift.enqueue(send, { to: "nobody" })
    await shift.drain()
    expect(await shift.result(sent.id)).toBe("enqueued")
    expect((await shift.job(sent.id)).history).toMatchObject([{ message: "busy" }])
    expect(await shift.job(refused.id)).toMatchObject({ state: "dead", lastError: "no address" })
    expect((await shift.jobs.list().toArray()).map(({ kind }) => kind)).toContain("next")
    expect(seen).toEqual([1, 1, 2])
  })

  it("catches errors of the worker's copy as instances of its own classes, and no others", async () => {
    const names: Array<string> = []
    const strict = client.job("strict", { payload: z.object({}) })
    await using shift = await testShift({
      handlers: [
        strict.handle(async (_, { enqueue }) => {
          const error = await enqueue(strict, {}, { priority: 1e9 }).catch((thrown: unknown) => thrown)
          const classes = { InvalidJobError: client.InvalidJobError, QueueFullError: client.QueueFullError }
          for (const [name, each] of Object.entries(classes)) if (error instanceof each) names.push(name)
          if (error instanceof client.ShiftError) names.push("ShiftError")
        })
      ]
    })
    await shift.enqueue(strict, {})
    await shift.drain()
    expect(names).toEqual(["InvalidJobError", "ShiftError"])
    expect(new Error("x") instanceof client.ShiftError).toBe(false)
  })

  it("may be a workflow", async () => {
    const order = client.workflow("order", { payload: z.object({ id: z.string() }) }, async ({ id }, step) => {
      const failed = await step
        .run("charge", () => Promise.reject(new Error("no card")), { attempts: 1 })
        .catch((e) => e)
      await step.sleep("cool off", "1h")
      const [sum] = await step.all("next", [41], (n) => client.child(next, { n }))
      return `${id} ${sum} ${failed instanceof client.StepFailedError}`
    })
    await using shift = await testShift({ handlers: [order, next.handle(({ n }) => n + 1)] })
    const { id } = await shift.start(order, { id: "A" })
    await shift.drain()
    expect(await shift.result(id)).toBe("A 42 true")
  })

  it("keeps the names of its error classes, which copies compare", () => {
    const wrong = Object.entries(client).flatMap(([name, value]) =>
      name.endsWith("Error") && (value as { name?: string }).name !== name ? [name] : []
    )
    expect(wrong).toEqual([])
  })
})

describe("both forms in one process", () => {
  const database = useDatabase()

  it("share the database: each runs what the other enqueues, and no object", async () => {
    const payload = Schema.Struct({ n: Schema.Number })
    const toPromises = library.Job.make("to.promises", { payload, queue: "promises" })
    const toEffect = library.Job.make("to.effect", { payload, queue: "effect" })
    const seen: Array<string> = []
    const both = client.job("to.promises", { payload: z.object({ n: z.number() }), queue: "promises" })
    const sent = client.job("to.effect", { payload: z.object({ n: z.number() }), queue: "effect" })

    const shift = await client.connect(database.url(), { log: false })
    const running = await client.worker(shift, {
      handlers: [both.handle(({ n }) => void seen.push(`promises ${n}`))]
    })
    const program = Effect.gen(function* () {
      const { id } = yield* toPromises.enqueue({ n: 1 })
      yield* Effect.promise(() => shift.result(id, { timeout: "20s" }))
      const enqueued = yield* Effect.promise(() => shift.enqueue(sent, { n: 2 }))
      yield* Effect.promise(() => shift.result(enqueued.id, { timeout: "20s" }))
    })
    const layer = library.Nightshift.layer({
      databaseUrl: Redacted.make(database.url()),
      queues: ["effect"],
      handlers: [library.Handler.make(toEffect, ({ n }) => Effect.sync(() => void seen.push(`effect ${n}`)))]
    })
    await Effect.runPromise(Effect.provide(program, Layer.orDie(layer)))
    await running.stop()
    await shift.close()
    expect(seen).toEqual(["promises 1", "effect 2"])
  })

  it("refuse each other's handlers", async () => {
    const kind = library.Job.make("effect.only", { payload: Schema.Struct({}) })
    const handler = library.Handler.make(kind, () => Effect.void)
    const shift = await client.connect(database.url(), { log: false })
    const started = client.worker(shift, { handlers: [handler as never] })
    await expect(started).rejects.toThrow(
      'handlers[0], for "effect.only", was made with Effect: pass it to Nightshift.layer of "nightshift"'
    )
    await shift.close()
    const handlers: Array<never> = [client.job("promises.only", { payload: z.object({}) }).handle(() => {}) as never]
    const layer = library.Nightshift.layer<never>({
      databaseUrl: Redacted.make(database.url()),
      queues: ["effect"],
      handlers
    })
    await expect(Effect.runPromise(Effect.scoped(Layer.build(Layer.orDie(layer))))).rejects.toThrow(
      'The handler for "promises.only" was made by nightshift/client'
    )
  })
})

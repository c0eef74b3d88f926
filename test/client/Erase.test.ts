import { Effect, Schema } from "effect"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { event, InvalidOptionError, JobStateError, job, on, workflow } from "../../src/client/index.js"
import { digestOf } from "../../src/database/SubjectText.js"
import * as Event from "../../src/handlers/Event.js"
import { Events } from "../../src/queue/events/Events.js"
import { TestShift } from "../../src/testing/effect.js"
import { testShift } from "../../src/testing/index.js"

const Named = z.object({ name: z.string() })
const greet = job("greet", { payload: Named })
const paid = event("paid", Named)

describe("the subject of a job", () => {
  it("is that of what its handler stores, of the jobs of an event and of children, and erasing it erases all", async () => {
    const small = workflow("small", { payload: Named }, async ({ name }) => name)
    const order = workflow("order", { payload: Named }, async ({ name }, step) =>
      step.all("each", [name], (each) => small({ name: each }))
    )
    const welcome = job("welcome", { payload: Named })
    await using shift = await testShift({
      handlers: [
        greet.handle(async () => {}),
        welcome.handle(async ({ name }, { enqueue, publish }) => {
          await enqueue(greet, { name })
          await publish(paid, { name })
        }),
        on(paid, { as: "receipt" }, async () => {}),
        small,
        order
      ]
    })
    const subject = "customer:42"
    const { id } = await shift.enqueue(welcome, { name: "Ada" }, { subject })
    await shift.start(order, { name: "Ada" }, { key: "Ada", subject })
    await shift.enqueueMany(greet, [{ name: "Ada" }, { name: "Otto" }], {
      subject: ({ name }) => (name === "Ada" ? subject : name)
    })
    await shift.settle()
    const jobs = await shift.jobs.list().toArray()
    const own = jobs.filter(({ meta }) => (meta as { subjectDigest?: string }).subjectDigest === digestOf(subject))
    expect(own.map(({ kind }) => kind).sort()).toEqual(["greet", "greet", "order", "receipt", "small", "welcome"])
    const later = await shift.enqueue(greet, { name: "Ada" }, { subject, delay: "1d" })
    expect(await shift.erase(subject)).toEqual({
      erased: { jobs: 7, events: 1, batches: 0, schedules: 0, uploads: 0, copies: 0, quotes: 0 },
      unfinished: [],
      done: true
    })
    expect(await shift.job(later.id)).toMatchObject({ state: "cancelled", payload: null })
    const left = await shift.jobs.list().toArray()
    expect(left.filter((each) => JSON.stringify(each).includes("Ada"))).toEqual([])
    expect(left.filter((each) => JSON.stringify(each).includes("Otto"))).toHaveLength(1)
    await expect(shift.requeue(id)).rejects.toThrow(JobStateError)
    await expect(shift.requeue(id)).rejects.toThrow("its data was erased on")
    // @ts-expect-error no such option
    await expect(shift.erase(subject, { force: true })).rejects.toThrow(InvalidOptionError)
    await expect(shift.erase("")).rejects.toThrow("subject must")
  })
})

describe("the subject of a schedule", () => {
  it("is replaced by put, also by none, and kept by other changes", async () => {
    await using shift = await testShift({ handlers: [greet.handle(async () => {})] })
    const daily = (subject?: string) =>
      shift.schedules.put(greet.schedule("daily", { payload: { name: "all" }, cron: "@daily", subject }))
    const erased = async () => (await shift.erase("customer:42")).erased.schedules
    await daily("customer:42")
    await daily()
    expect(await erased()).toBe(0)
    expect((await shift.schedules.get("daily")).payload).toEqual({ name: "all" })
    await daily("customer:42")
    await shift.schedules.pause("daily")
    expect(await erased()).toBe(1)
  })
})

describe("the subject of an event", () => {
  it("is stored if the event is published with Effect", async () => {
    const Paid = Event.make("paid", Schema.Struct({ name: Schema.String }))
    const stored = Effect.gen(function* () {
      yield* Paid.publish({ name: "Ada" }, { subject: "customer:42" })
      const events = yield* Events
      return yield* events.erase(digestOf("customer:42"), "count")
    })
    expect(
      await Effect.runPromise(Effect.provide(stored, TestShift.layer<never>({ handlers: [], queues: ["default"] })))
    ).toBe(1)
  })
})

import { describe, expect, it } from "@effect/vitest"
import { Cause, type Clock, Duration, Effect, Logger, Schema } from "effect"
import { vi } from "vitest"
import { job, type StandardSchema, workflow } from "../../src/client/index.js"
import { reporting } from "../../src/client/WorkerEvents.js"
import type { JobId } from "../../src/core/Ids.js"
import * as Handler from "../../src/handlers/Handler.js"
import { End } from "../../src/queue/AttemptEnd.js"
import * as Job from "../../src/queue/Job.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { testShift } from "../../src/testing/index.js"
import { TestShift } from "../../src/testing/TestShift.js"

const bang = (): never => {
  throw new Error("bang")
}
const trap = (handler: ProxyHandler<Error>) => new Proxy(new Error("inner"), handler)
const withGetter = (name: string) => Object.defineProperty(new Error("inner"), name, { get: bang })
const revoked = () => {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}
const cyclic = () => {
  const error = new Error("inner")
  error.cause = error
  return error
}
/** Reading it throws an error that cannot be read either. */
const nested = (): object =>
  new Proxy(
    {},
    {
      has: () => {
        throw trap({ has: bang, get: bang, getPrototypeOf: bang })
      }
    }
  )

/** What user code may throw. */
const hostile: Readonly<Record<string, () => unknown>> = {
  "a throwing `has` trap": () => trap({ has: bang }),
  "a throwing `get` trap": () => trap({ get: bang }),
  "a throwing `ownKeys` trap": () => trap({ ownKeys: bang }),
  "a throwing `getPrototypeOf` trap": () => trap({ getPrototypeOf: bang }),
  "traps that throw what cannot be read": nested,
  "a revoked proxy": revoked,
  "a throwing `message`": () => withGetter("message"),
  "a throwing `stack`": () => withGetter("stack"),
  "a throwing `name`": () => withGetter("name"),
  "a throwing `cause`": () => withGetter("cause"),
  "a throwing `_tag`": () => withGetter("_tag"),
  "a throwing `errors`": () => withGetter("errors"),
  "a throwing `toString` and `toJSON`": () => ({ toString: bang, toJSON: bang }),
  "a throwing field": () => Object.defineProperty({}, "field", { get: bang, enumerable: true }),
  "a message that is an object": () => Object.assign(new Error("inner"), { message: { toString: bang } }),
  "no prototype": () => Object.create(null),
  "a cyclic cause": cyclic,
  "a cause that cannot be read": () => new Error("inner", { cause: withGetter("message") }),
  "a message of a million characters": () => new Error("x".repeat(1_000_000)),
  "a symbol": () => Symbol("inner"),
  "a function": () => () => {},
  undefined: () => undefined,
  null: () => null
}

const values = Object.keys(hostile)

const validator = (validate: (value: unknown) => { readonly value: unknown }): StandardSchema<unknown, unknown> => ({
  "~standard": { version: 1, vendor: "test", validate }
})
const anything = validator((value) => ({ value }))

const Hostile = Job.make("hostile", { payload: Schema.Struct({ value: Schema.String }), attempts: 1 })
const valueOf = ({ value }: { readonly value: string }): unknown => hostile[value]?.()

/** Where a handler may meet such a value. */
const ways: Readonly<Record<string, Handler.Handler<never> | ReturnType<typeof Handler.promise>>> = {
  "a promise handler that rejects with": Handler.promise(Hostile, async (payload) => Promise.reject(valueOf(payload))),
  "a promise handler that throws": Handler.promise(Hostile, (payload): Promise<void> => {
    throw valueOf(payload)
  }),
  "an Effect handler that throws": Handler.make(Hostile, (payload): Effect.Effect<void> => {
    throw valueOf(payload)
  }),
  "an Effect with a failure of": Handler.make(Hostile, (payload) => Effect.failCause(Cause.fail(valueOf(payload)))),
  "an Effect that fails with": Handler.make(Hostile, (payload) => Effect.suspend(() => Effect.fail(valueOf(payload)))),
  "an Effect that dies with": Handler.make(Hostile, (payload) => Effect.suspend(() => Effect.die(valueOf(payload)))),
  "an Effect whose code throws": Handler.make(Hostile, (payload) =>
    Effect.zipRight(
      Effect.yieldNow(),
      Effect.sync(() => {
        throw valueOf(payload)
      })
    )
  ),
  "a transactional Effect that fails with": Handler.makeInTransaction(Hostile, (payload) =>
    Effect.failCause(Cause.fail(valueOf(payload)))
  )
}

const logging = (lines: Array<string>) =>
  Logger.replace(
    Logger.defaultLogger,
    Logger.make(({ message }) => void lines.push(String(message)))
  )
const completed = {
  job: { id: "1", kind: "noisy", queue: "default", attempt: 1, attempts: 5 } as never,
  end: End.Done({ result: undefined }),
  became: "done",
  reason: undefined,
  took: 1
} as const

describe("a thrown value that cannot be read", () => {
  for (const [way, handler] of Object.entries(ways)) {
    it.effect(`fails the attempt of ${way} it, and no slot crashes`, () =>
      Effect.gen(function* () {
        const shift = yield* TestShift
        const stored = yield* Effect.forEach(values, (value) => Hostile.enqueue({ value }))
        yield* shift.settle
        for (const [at, value] of values.entries()) {
          const ended = yield* shift.job(stored[at]?.id as JobId)
          expect(ended, value).toMatchObject({ state: "dead", reason: "exhausted", crashCount: 0, attempt: 1 })
          expect(ended.lastError, value).toEqual(expect.any(String))
          expect(ended.lastError?.length, value).toBeLessThan(10_000)
        }
        const metrics = yield* Effect.flatMap(Metrics, ({ render }) => render)
        expect(metrics).toContain('nightshift_slots_crashed_total{queue="default"} 0')
      }).pipe(Effect.provide(TestShift.layer({ handlers: [handler as Handler.Handler<never>] })))
    )
  }

  it.effect("keeps what can be read of it", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const { id } = yield* Hostile.enqueue({ value: "a throwing `has` trap" })
      yield* shift.settle
      expect((yield* shift.job(id)).lastError).toMatch(/^inner\n {4}at /)
    }).pipe(
      Effect.provide(
        TestShift.layer({ handlers: [ways["a promise handler that rejects with"] as Handler.Handler<never>] })
      )
    )
  )

  it("fails the attempt if it is the result", async () => {
    const given = job("given", { payload: anything, attempts: 1 })
    await using shift = await testShift({ handlers: [given.handle((value) => hostile[String(value)]?.() as never)] })
    const jobs = await Promise.all(values.map((value) => shift.enqueue(given, value)))
    await shift.settle()
    for (const { id } of jobs) expect((await shift.job(id)).state).toMatch(/^(dead|done)$/)
  })

  it("makes a job undecodable if its validator throws it", async () => {
    const enqueued = new Set<unknown>()
    const throwing = validator((value) => {
      if (enqueued.has(value)) throw hostile[String(value)]?.()
      enqueued.add(value)
      return { value }
    })
    const checked = job("checked", { payload: throwing })
    await using shift = await testShift({ handlers: [checked.handle(() => {})] })
    const jobs = await Promise.all(values.map((value) => shift.enqueue(checked, value)))
    await shift.settle()
    for (const { id } of jobs) {
      expect(await shift.job(id)).toMatchObject({ state: "dead", reason: "undecodable" })
    }
  })

  it.effect("does not prevent a retry if the backoff throws it", () => {
    const left = [...values]
    const Retried = Job.make("retried", {
      payload: Schema.Struct({}),
      backoff: () => {
        throw hostile[left.shift() ?? ""]?.()
      }
    })
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const ids = yield* Effect.replicateEffect(Retried.enqueue({}), values.length)
      yield* shift.settle
      expect(left).toEqual([])
      for (const { id } of ids) {
        const retried = yield* shift.job(id)
        expect(retried).toMatchObject({ state: "retrying", attempt: 1 })
        expect(retried.runAt - retried.updatedAt).toBe(Duration.toMillis("30 seconds"))
        expect(retried.lastError).toContain("no luck\nthe kind's backoff threw, the default was used: ")
      }
    }).pipe(Effect.provide(TestShift.layer({ handlers: [Handler.make(Retried, () => Effect.fail("no luck"))] })))
  })

  it("has no effect if a listener for events throws it", async () => {
    const clock = { unsafeCurrentTimeMillis: () => 0 } as Clock.Clock
    for (const value of values) {
      const lines: Array<string> = []
      const run = (effect: Effect.Effect<unknown>) => Effect.runPromise(Effect.provide(effect, logging(lines)))
      const report = reporting({ clock, run } as never, () => {
        throw hostile[value]?.()
      })
      report(completed)
      await vi.waitFor(() => expect(lines, value).toHaveLength(1))
      expect(lines[0]).toContain("onEvent of a worker threw, which has no effect on the job: ")
    }
  })

  it("fails the step, the undo or the workflow that throws it", async () => {
    const order = workflow("order", { payload: anything }, async (payload, step) => {
      const [where, value] = String(payload).split("|")
      const throwIn = (place: string) => {
        if (where === place) throw hostile[value ?? ""]?.()
      }
      await step.run("pay", () => throwIn("step"), { undo: async () => throwIn("undo"), attempts: 1 })
      throwIn("code")
      throw new Error("ended")
    })
    await using shift = await testShift({ handlers: [order] })
    const keys = ["step", "undo", "code"].flatMap((where) => values.map((value) => `${where}|${value}`))
    const jobs = await Promise.all(keys.map((key) => shift.start(order, key, { key })))
    await shift.settle()
    for (const [at, { id }] of jobs.entries()) {
      const reason = keys[at]?.startsWith("undo") ? "not_undone" : "rejected"
      expect(await shift.job(id)).toMatchObject({ state: "dead", reason })
    }
  })
})

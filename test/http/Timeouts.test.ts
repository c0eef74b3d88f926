import * as Http from "node:http"
import { describe, expect, it } from "@effect/vitest"
import { Chunk, Duration, Effect, Fiber, Layer, Redacted, TestClock } from "effect"
import { Sessions } from "../../src/access/Sessions.js"
import { adminToken, behind, layerOverAll, portsMemory, TestServer } from "./TestServer.js"

/** Looking up a login takes a second, so that every later limit starts after the limit of the whole request. */
const slowLogins = Layer.effect(
  Sessions,
  Effect.map(Sessions, (sessions) => ({
    ...sessions,
    find: (...given: Parameters<typeof sessions.find>) => Effect.delay(sessions.find(...given), "1 second")
  }))
)

const layer = layerOverAll(Layer.provideMerge(slowLogins, portsMemory), behind)

const login = Effect.gen(function* () {
  const { begin } = yield* Sessions
  const { secret } = yield* begin("admin", Redacted.make(adminToken), Duration.hours(1))
  return { cookie: `nightshift_session=${Redacted.value(secret)}`, "sec-fetch-site": "same-origin" }
})

/** Waits in real time until something of the server sleeps until this instant of the test clock. */
const slept = (until: number) =>
  Effect.repeat(
    Effect.zipRight(
      Effect.async<void>((resume) => void setImmediate(() => resume(Effect.void))),
      TestClock.sleeps()
    ),
    { until: (sleeps) => Chunk.contains(sleeps, until) }
  )

/** Lets the login be looked up, and then a minute pass, which began after the request. */
const aMinuteAfterTheLogin = Effect.gen(function* () {
  yield* slept(1_000)
  yield* TestClock.adjust("1 second")
  yield* slept(61_000)
  yield* TestClock.adjust("1 minute")
})

describe("a request that takes as long as it may", () => {
  it.scoped("gets the id of its ask after a minute without an answer", () =>
    Effect.gen(function* () {
      const { admin, ask } = yield* TestServer
      const started = { workflow: "greet", key: "Ada", payload: { name: "Ada" } }
      expect((yield* admin("POST", "/api/v1/workflows", { json: started })).status).toBe(201)
      const asking = yield* Effect.fork(
        ask("POST", `/api/v1/workflows/${encodeURIComponent("greet/Ada")}/ask`, {
          headers: yield* login,
          json: { name: "add", id: "mine", timeout: "1m" }
        })
      )
      yield* aMinuteAfterTheLogin
      expect(yield* Fiber.join(asking)).toMatchObject({
        status: 504,
        json: { error: { tag: "AskTimedOut", message: expect.stringContaining('the id "mine"') } }
      })
    }).pipe(Effect.provide(layer))
  )

  it.scoped("is told that its body took too long", () =>
    Effect.gen(function* () {
      const { port } = yield* TestServer
      const type = { "content-type": "application/json", "content-length": "100" }
      const request = Http.request({
        port,
        method: "POST",
        path: "/api/v1/jobs",
        headers: { ...(yield* login), ...type }
      })
      yield* Effect.addFinalizer(() => Effect.sync(() => request.destroy()))
      const answered = yield* Effect.fork(
        Effect.async<number | undefined>((resume) => {
          request.on("error", () => resume(Effect.succeed(undefined)))
          request.on("response", ({ statusCode }) => resume(Effect.succeed(statusCode)))
          request.write("{")
        })
      )
      yield* aMinuteAfterTheLogin
      expect(yield* Fiber.join(answered)).toBe(408)
    }).pipe(Effect.provide(layer))
  )
})

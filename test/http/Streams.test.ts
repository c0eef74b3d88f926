import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { Lifecycle } from "../../src/core/Lifecycle.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { type HeldJob, Queue } from "../../src/queue/Queue.js"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import { listen } from "./EventListener.js"
import { adminToken, backends, layer, TestServer, viewerToken } from "./TestServer.js"

const path = (id: string, name = "tokens", query = "") =>
  `/api/v1/workflows/${encodeURIComponent(id)}/streams/${encodeURIComponent(name)}${query}`

const read = (query = "", headers: Readonly<Record<string, string>> = {}) =>
  listen(path("chat/1", "tokens", query), { authorization: `Bearer ${adminToken}`, ...headers })

/** An execution that is running. */
const started = Effect.gen(function* () {
  const workflows = yield* Workflows
  const queue = yield* Queue
  const job = { kind: "greet", version: 3, queue: "mail", payload: {}, attempts: 5 }
  yield* workflows.start({ ...job, execution: "chat/1" })
  const pod = (yield* makeGenerator).pod(1)
  const [run] = yield* queue.claim({ queue: "mail", pod, limit: 1 })
  return run ?? (yield* Effect.dieMessage("nothing was claimed"))
})

const append = (run: HeldJob, generation: number, number: number, ...chunks: ReadonlyArray<unknown>) =>
  Effect.flatMap(Workflows, ({ streams }) =>
    streams.append(run, {
      name: "tokens",
      generation,
      number,
      count: chunks.length,
      bytes: JSON.stringify(chunks).length,
      text: JSON.stringify(chunks)
    })
  )

const begin = (run: HeldJob, attempt = 1) =>
  Effect.flatMap(Workflows, ({ streams }) => streams.begin(run, "tokens", attempt))

const record = (run: HeldJob, outcome: "done" | "failed" = "done") =>
  Effect.flatMap(Workflows, (workflows) =>
    workflows.record(run, {
      name: "tokens",
      kind: "stream",
      attempt: 1,
      sequence: 1,
      outcome,
      exit: { error: { message: "no model" } },
      startedAt: 0
    })
  )

describe.concurrent.each(backends)("on %s, GET /api/v1/workflows/{id}/streams/{name}", (_, layer) => {
  it.scopedLive("sends chunks while they are written, a new generation from its start, and then the end", () =>
    Effect.gen(function* () {
      const run = yield* started
      const reader = yield* read()
      expect(reader.status).toBe(200)
      expect(reader.headers).toMatchObject({
        "content-type": "text/event-stream",
        "cache-control": "no-store, no-transform"
      })
      yield* begin(run)
      yield* append(run, 1, 0, "Hel", "lo\n\nevent: evil")
      yield* reader.heard("message", ({ number }) => number === 1)
      yield* begin(run)
      yield* append(run, 2, 0, { word: "Hi" })
      yield* reader.heard("message", ({ generation }) => generation === 2)
      yield* record(run)
      yield* reader.heard("end")
      yield* reader.ended
      expect(reader.events).toEqual([
        { name: "message", id: "1-0", data: { generation: 1, number: 0, value: "Hel" } },
        { name: "message", id: "1-1", data: { generation: 1, number: 1, value: "lo\n\nevent: evil" } },
        { name: "message", id: "2-0", data: { generation: 2, number: 0, value: { word: "Hi" } } },
        { name: "end", id: "2-end", data: { state: "done", generation: 2, count: 1 } }
      ])
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("continues behind Last-Event-ID, and answers 204 behind the end", () =>
    Effect.gen(function* () {
      const { viewer } = yield* TestServer
      const run = yield* started
      yield* begin(run)
      yield* append(run, 1, 0, "a", "b", "c")
      yield* record(run)
      const ids = (query: string, headers = {}) =>
        Effect.gen(function* () {
          const reader = yield* read(query, headers)
          yield* reader.ended
          return reader.events.map(({ id }) => id)
        })
      expect(yield* ids("", { "last-event-id": "1-0" })).toEqual(["1-1", "1-2", "1-end"])
      expect(yield* ids("?after=1-1&from=0", { "last-event-id": "1-2" })).toEqual(["1-end"])
      expect(yield* ids("?after=1-1")).toEqual(["1-2", "1-end"])
      expect(yield* ids("?from=2")).toEqual(["1-2", "1-end"])
      expect(yield* ids("?from=-2")).toEqual(["1-1", "1-2", "1-end"])
      expect(yield* ids("?from=77")).toEqual(["1-end"])
      // A generation that does not exist any more.
      expect(yield* ids("?after=7-1")).toEqual(["1-0", "1-1", "1-2", "1-end"])
      const over = { headers: { "last-event-id": "1-end" } }
      expect(yield* viewer("GET", path("chat/1"), over)).toMatchObject({ status: 204, text: "" })
      expect(yield* viewer("HEAD", path("chat/1"))).toMatchObject({ status: 200, text: "" })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("refuses what does not exist, what is wrong, and callers without a token", () =>
    Effect.gen(function* () {
      const { ask, viewer } = yield* TestServer
      const run = yield* started
      expect(yield* ask("GET", path("chat/1"))).toMatchObject({ status: 401 })
      expect(yield* viewer("GET", path("chat/2"))).toMatchObject({
        status: 404,
        json: { error: { tag: "ExecutionNotFound" } }
      })
      expect(yield* viewer("GET", path("chat/1", "tokens", "?from=x"))).toMatchObject({
        status: 400,
        json: { error: { field: "from", message: expect.stringContaining("must be a whole number") } }
      })
      expect(yield* viewer("GET", path("chat/1", "tokens", "?after=x"))).toMatchObject({
        status: 400,
        json: { error: { field: "after" } }
      })
      const waiting = yield* read()
      const queue = yield* Queue
      yield* queue.finalize([{ id: run.id, lease: run.lease, linked: true, end: End.Done({ result: undefined }) }])
      expect((yield* waiting.heard("end")).data).toEqual({ state: "missing", generation: 0, count: 0 })
      expect(yield* viewer("GET", path("chat/1"))).toMatchObject({
        status: 404,
        json: { error: { tag: "StreamNotFound" } }
      })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("masks fields for viewers, and counts towards the limit of live streams", () =>
    Effect.gen(function* () {
      const { viewer } = yield* TestServer
      const run = yield* started
      yield* begin(run)
      yield* append(run, 1, 0, { password: "hunter2", text: "ok" })
      const seen = yield* listen(path("chat/1"), { authorization: `Bearer ${viewerToken}` })
      expect((yield* seen.heard("message")).data).toMatchObject({ value: { password: "[masked]", text: "ok" } })
      const whole = yield* read()
      expect((yield* whole.heard("message")).data).toMatchObject({ value: { password: "hunter2" } })
      expect(yield* viewer("GET", path("chat/1"))).toMatchObject({
        status: 503,
        json: { error: { message: expect.stringContaining("LIVE_LISTENERS") } }
      })
      expect(yield* viewer("GET", "/api/v1/events")).toMatchObject({ status: 503 })
      yield* record(run, "failed")
      expect((yield* whole.heard("end")).data).toMatchObject({ state: "failed" })
    }).pipe(Effect.provide(layer({ mask: ["password"], listeners: 2 })))
  )

  it.scopedLive("sends a large stream whole to a slow reader", () =>
    Effect.gen(function* () {
      const { viewer } = yield* TestServer
      const run = yield* started
      yield* begin(run)
      const text = "x".repeat(50_000)
      for (let number = 0; number < 60; number += 1) yield* append(run, 1, number, `${number} ${text}`)
      for (let number = 60; number < 20_060; number += 5_000)
        yield* append(run, 1, number, ...Array.from({ length: 5_000 }, (_, index) => number + index))
      yield* record(run)
      const reader = yield* read()
      yield* reader.heard("message")
      reader.pause()
      // Meanwhile others are served.
      for (let turn = 0; turn < 3; turn += 1)
        expect(yield* viewer("HEAD", path("chat/1"))).toMatchObject({ status: 200 })
      reader.resume()
      expect((yield* reader.heard("end")).data).toMatchObject({ count: 20_060 })
      expect(reader.events.map(({ data }) => data.number).slice(0, -1)).toEqual(
        Array.from({ length: 20_060 }, (_, number) => number)
      )
    }).pipe(Effect.provide(layer()))
  )
})

describe("a stream that is read", () => {
  it.scopedLive("ends when the process drains, and when the login ends", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      const run = yield* started
      yield* begin(run)
      const { headers } = yield* ask("POST", "/api/v1/session", { json: { token: viewerToken } })
      const cookie = headers["set-cookie"]?.[0]?.split(";")[0] ?? ""
      const ours = yield* listen(path("chat/1"), { cookie })
      const theirs = yield* read()
      yield* ask("DELETE", "/api/v1/session", { headers: { cookie, "sec-fetch-site": "same-origin" } })
      yield* ours.ended
      yield* append(run, 1, 0, "a")
      yield* theirs.heard("message")
      yield* Effect.flatMap(Lifecycle, (lifecycle) => lifecycle.drain)
      yield* theirs.ended
    }).pipe(Effect.provide(layer()))
  )
})

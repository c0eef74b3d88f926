import { describe, expect, it } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { never } from "../../src/core/Suspension.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { type ClaimedJob, Queue } from "../../src/queue/Queue.js"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import { backends, TestServer } from "./TestServer.js"

const execution = "greet/Ada"
const path = `/api/v1/workflows/${encodeURIComponent(execution)}`

/** Starts an execution over HTTP, claims it, and records a step of it. */
const running = Effect.gen(function* () {
  const { admin } = yield* TestServer
  const queue = yield* Queue
  const workflows = yield* Workflows
  const ids = yield* makeGenerator
  const json = { workflow: "greet", key: "Ada", payload: { name: "Ada" } }
  const started = yield* admin("POST", "/api/v1/workflows", { json })
  const [run] = yield* queue.claim({ queue: "mail", pod: ids.pod(1), limit: 1 })
  if (run === undefined) return yield* Effect.dieMessage("the execution was not claimed")
  const now = yield* Clock.currentTimeMillis
  yield* workflows.record(run, {
    name: "charge",
    kind: "run",
    attempt: 1,
    sequence: 1,
    outcome: "done",
    exit: { value: 7 },
    startedAt: now
  })
  return { started, run, json }
})

describe.each(backends)("on %s, /api/v1/workflows", (_, layer) => {
  it.scopedLive("refuses to start a plain kind, unless forced", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const json = { workflow: "plain", key: "1", payload: {} }
      expect(yield* admin("POST", "/api/v1/workflows", { json })).toMatchObject({
        status: 422,
        json: { error: { tag: "NotAWorkflow", message: expect.stringContaining('"plain" is not a workflow') } }
      })
      expect((yield* admin("GET", "/api/v1/workflows")).json).toMatchObject({ executions: [] })
      expect((yield* admin("POST", "/api/v1/workflows", { json: { ...json, force: true } })).status).toBe(201)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("refuses a signal whose name is too long, and a new payload for an execution that has started", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const { json, run } = yield* running
      const signal = (name: string) => admin("POST", `${path}/signal`, { json: { name, value: 1 } })
      expect(yield* signal("n".repeat(257))).toMatchObject({ status: 400 })
      expect((yield* signal("n".repeat(256))).status).toBe(200)
      const queue = yield* Queue
      const suspended = End.Suspended({
        woken: 0,
        waits: [{ kind: "signal", name: "go" }],
        error: undefined,
        runAt: never
      })
      yield* queue.finalize([{ id: run.id, lease: run.lease, linked: true, end: suspended }])
      const edit = (change: object) => admin("PATCH", `/api/v1/jobs/${run.id}`, { json: change })
      expect(yield* edit({ payload: { name: "Eve" } })).toMatchObject({
        status: 400,
        json: { error: { field: "payload", message: expect.stringContaining("has started") } }
      })
      expect((yield* edit({ priority: 3 })).status).toBe(200)
      expect((yield* admin("GET", path)).json).toMatchObject({ payload: json.payload })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("starts an execution once, lists it, and shows its steps", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const { json, started } = yield* running
      expect(started).toMatchObject({ status: 201, json: { execution, outcome: "started" } })
      expect((yield* admin("POST", "/api/v1/workflows", { json })).json).toMatchObject({
        execution,
        outcome: "existing"
      })
      const listed = yield* admin("GET", "/api/v1/workflows?workflow=greet&state=running&prefix=greet/")
      expect(listed.json).toMatchObject({
        executions: [{ execution, workflow: "greet", state: "running", stepsDone: 1, failedStep: null }],
        next: null,
        sortedAmong: null
      })
      const sorted = yield* admin("GET", "/api/v1/workflows?roots=true&sort=duration&order=asc")
      expect(sorted.json).toMatchObject({ executions: [{ execution, childCounts: { open: 0, more: false } }] })
      expect((yield* admin("GET", "/api/v1/workflows?roots=yes")).json).toMatchObject({
        error: { field: "roots", message: expect.stringContaining("must be true or false") }
      })
      expect((yield* admin("GET", "/api/v1/workflows/counts?workflow=greet&roots=true")).json).toMatchObject({
        counts: { running: 1, done: 0 },
        exact: true
      })
      const { id } = JSON.parse(started.text)
      for (const address of [path, `/api/v1/workflows/${id}`]) {
        expect((yield* admin("GET", address)).json).toMatchObject({
          execution,
          id,
          payload: { name: "Ada" },
          steps: [{ name: "charge", outcome: "done", exit: { value: 7 }, attempt: 1, retryAt: null }],
          children: [],
          parents: []
        })
      }
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("sets tags at the start and later, and lists by tag and time", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const start = (key: string, tags: unknown) =>
        admin("POST", "/api/v1/workflows", { json: { workflow: "greet", key, payload: { name: key }, tags } })
      expect((yield* start("Ada", { customer: "42" })).status).toBe(201)
      expect((yield* start("Eve", { customer: "43" })).status).toBe(201)
      const bad = yield* start("Bob", { customer: 7 })
      expect(bad).toMatchObject({ status: 400, json: { error: { field: "tags" } } })
      const tag = (tags: unknown) => admin("POST", `${path}/tags`, { json: { tags, reason: "asked" } })
      expect((yield* tag({ region: "eu", none: null })).json).toEqual({
        execution,
        tags: { customer: "42", region: "eu" }
      })
      expect(yield* tag({ region: "" })).toMatchObject({
        status: 400,
        json: { error: { tag: "InvalidTags", field: "tags", message: 'The tag "region" must not be empty.' } }
      })
      const listed = (query: string) =>
        Effect.map(admin("GET", `/api/v1/workflows?${query}`), ({ text }) =>
          (JSON.parse(text).executions ?? []).map((each: { execution: string }) => each.execution)
        )
      expect(yield* listed("tag=customer%3D42&tag=region%3Deu")).toEqual([execution])
      expect(yield* listed("tag=customer%3D43&tag=region%3Deu")).toEqual([])
      expect(yield* listed("since=2000-01-01T00:00:00Z")).toEqual(["greet/Eve", execution])
      expect(yield* listed("until=2000-01-01T00:00:00Z")).toEqual([])
      expect(yield* admin("GET", "/api/v1/workflows?tag=customer")).toMatchObject({
        status: 400,
        json: { error: { field: "tag", message: expect.stringContaining("must be a tag like customer=42") } }
      })
      const audit = yield* admin("GET", `/api/v1/audit?target=${encodeURIComponent(execution)}`)
      expect(audit.json).toMatchObject({ entries: [{ act: "workflow.tag", reason: "asked" }] })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("takes signals before an execution exists too, and keeps their first value", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const signal = (name: string, value: unknown) => admin("POST", `${path}/signal`, { json: { name, value } })
      expect(yield* signal("approval", { by: "ada" })).toMatchObject({ status: 200, json: { outcome: "completed" } })
      expect((yield* signal("approval", { by: "eve" })).json).toEqual({ outcome: "appended", waitsFor: null })
      yield* running
      expect((yield* admin("GET", path)).json).toMatchObject({
        deferreds: [
          { kind: "signal", name: "approval", value: { by: "ada" } },
          { kind: "value", name: "approval#2", value: { by: "eve" } }
        ],
        unclaimed: ["approval"]
      })
      expect((yield* signal("report", "x".repeat(100_000))).status).toBe(400)
      const audit = yield* admin("GET", `/api/v1/audit?target=${encodeURIComponent(execution)}`)
      expect(audit.json).toMatchObject({ entries: [{ act: "workflow.signal" }, { act: "workflow.signal" }] })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("takes further values of a signal, once per id, and shows the values that the code has set", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const workflows = yield* Workflows
      const signal = (value: unknown, id?: string) =>
        Effect.map(
          admin("POST", `${path}/signal`, { json: { name: "message", value, ...(id === undefined ? {} : { id }) } }),
          ({ json }) => (json as { outcome: string }).outcome
        )
      const { run } = yield* running
      expect([yield* signal(1, "a"), yield* signal(2, "b"), yield* signal(2, "b")]).toEqual([
        "completed",
        "appended",
        "repeated"
      ])
      const exit = { value: "paid", set: "stage" }
      const startedAt = yield* Clock.currentTimeMillis
      const step = {
        name: "set:stage",
        kind: "set",
        attempt: 1,
        sequence: 2,
        outcome: "done",
        exit,
        startedAt
      } as const
      yield* workflows.record(run, step)
      expect((yield* admin("GET", path)).json).toMatchObject({
        deferreds: [
          { kind: "signal", name: "message", value: 1 },
          { kind: "value", name: "message#2", value: 2 }
        ],
        values: { stage: "paid" }
      })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("asks an execution and returns the answer, the error of its handler, or that it took too long", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const workflows = yield* Workflows
      const ask = (json: object) => admin("POST", `${path}/ask`, { json: { name: "add", ...json } })
      expect((yield* ask({})).status).toBe(404)
      const { run } = yield* running
      yield* workflows.ask({ execution, name: "add", id: "1", value: "book" })
      yield* workflows.answer(run, "add/1", { value: { total: 1 } })
      expect(yield* ask({ id: "1" })).toMatchObject({ status: 200, json: { answer: { total: 1 } } })
      yield* workflows.ask({ execution, name: "add", id: "2", value: "bomb" })
      yield* workflows.answer(run, "add/2", { error: { name: "Error", message: "no bombs" } })
      expect(yield* ask({ id: "2" })).toMatchObject({ status: 422, json: { error: { tag: "AskFailed" } } })
      expect(yield* ask({ id: "3", value: 1, timeout: "1ms" })).toMatchObject({
        status: 504,
        json: { error: { tag: "AskTimedOut", message: expect.stringContaining('ask again with the id "3"') } }
      })
      expect((yield* ask({ timeout: "2m" })).status).toBe(400)
      const queue = yield* Queue
      yield* queue.finalize([{ id: run.id, lease: run.lease, linked: true, end: End.Done({ result: undefined }) }])
      expect(yield* ask({ id: "4" })).toMatchObject({ status: 409, json: { error: { tag: "ExecutionEnded" } } })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("takes thirty signals while the execution is being suspended", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const queue = yield* Queue
      const workflows = yield* Workflows
      const ids = yield* makeGenerator
      const names = Array.from({ length: 30 }, (_, index) => `signal ${index}`)
      const suspend = ({ execution: claimed, id, lease }: ClaimedJob, waitsFor: ReadonlyArray<string>) => {
        const waits = waitsFor.map((name) => ({ kind: "signal" as const, name }))
        const end = End.Suspended({ woken: claimed?.woken ?? 0, runAt: never, waits, error: undefined })
        return queue.finalize([{ id, lease, linked: true, end }])
      }
      const { run } = yield* running
      yield* suspend(run, names)
      yield* workflows.wake(execution)
      const [again] = yield* queue.claim({ queue: "mail", pod: ids.pod(1), limit: 1 })
      if (again === undefined) return yield* Effect.dieMessage("the execution was not claimed")
      const send = (name: string) => admin("POST", `${path}/signal`, { json: { name, value: 1 } })
      const [answers] = yield* Effect.all(
        [Effect.forEach(names, send, { concurrency: "unbounded" }), suspend(again, names.slice(0, 1))],
        { concurrency: "unbounded" }
      )
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
      expect((yield* queue.claim({ queue: "mail", pod: ids.pod(1), limit: 1 })).length).toBe(1)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("retries, forks and cancels", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const queue = yield* Queue
      const { run } = yield* running
      expect((yield* admin("POST", `${path}/retry`)).status).toBe(409)
      yield* queue.finalize([{ ...run, end: End.Dead({ reason: "rejected", counted: true, error: "no stock" }) }])
      expect((yield* admin("GET", path)).json).toMatchObject({ state: "failed", lastError: "no stock" })
      expect((yield* admin("POST", `${path}/retry`)).json).toMatchObject({ state: "pending" })
      const forked = yield* admin("POST", `${path}/fork`, { json: { step: "charge", as: "greet/Ada again" } })
      expect(forked).toMatchObject({ status: 201, json: { execution: "greet/Ada again" } })
      const again = yield* admin("POST", `${path}/fork`, { json: { step: "charge", as: "greet/Ada again" } })
      expect(again).toMatchObject({ status: 409, json: { error: { tag: "ExecutionExists", field: "as" } } })
      const unknown = yield* admin("POST", `${path}/fork`, { json: { step: "ship" } })
      expect(unknown).toMatchObject({ status: 404, json: { error: { tag: "StepNotFound", field: "step" } } })
      const cancelled = yield* admin("POST", `${path}/cancel`, { json: { now: true, reason: "a mistake" } })
      expect(cancelled.json).toEqual({ execution, cancelled: 1 })
      expect((yield* admin("GET", path)).json).toMatchObject({ state: "cancelled" })
      const audit = yield* admin("GET", "/api/v1/audit?act=workflow.cancel")
      expect(audit.json).toMatchObject({ entries: [{ target: execution, reason: "a mistake" }] })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("unpins an execution, and says what it is pinned to", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const { run } = yield* running
      yield* Effect.flatMap(Workflows, (workflows) => workflows.pin(run, "1f0c9a7be402"))
      expect((yield* admin("GET", path)).json).toMatchObject({ pinned: "1f0c9a7be402", continued: 0 })
      const unpinned = yield* admin("POST", `${path}/unpin`, { json: { reason: "the release is gone" } })
      expect(unpinned).toMatchObject({ status: 200, json: { pinned: null } })
      const audit = yield* admin("GET", "/api/v1/audit?act=workflow.unpin")
      expect(audit.json).toMatchObject({ entries: [{ target: execution, reason: "the release is gone" }] })
      expect((yield* admin("POST", "/api/v1/workflows/nope/unpin", { json: {} })).status).toBe(404)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("refuses unknown executions and invalid requests", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      expect((yield* admin("GET", "/api/v1/workflows/nope")).status).toBe(404)
      expect((yield* admin("POST", "/api/v1/workflows/nope/retry")).status).toBe(404)
      expect((yield* admin("GET", "/api/v1/workflows?state=odd")).status).toBe(400)
      const unknown = yield* admin("POST", "/api/v1/workflows", { json: { workflow: "nope", key: "1", payload: {} } })
      expect(unknown).toMatchObject({ status: 422, json: { error: { tag: "UnknownKind", field: "kind" } } })
      const missing = yield* admin("POST", "/api/v1/workflows", { json: { workflow: "greet", payload: {} } })
      expect(missing).toMatchObject({ status: 400, json: { error: { field: "key" } } })
    }).pipe(Effect.provide(layer()))
  )
})

import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Option, Redacted, Schedule } from "effect"
import { digestOf } from "../../src/database/SubjectText.js"
import { Queue } from "../../src/queue/Queue.js"
import * as RawClient from "../support/RawClient.js"
import { adminToken, backends, onSharedServers, TestServer, viewerToken } from "./TestServer.js"
import { claimOne, enqueue, finish, heartbeat, jobsOf, lost, plain, post, stored, worker, workOf } from "./WorkCalls.js"

onSharedServers(backends, "work over HTTP", (it) => {
  it.effect.each([
    ["done", { result: { loud: true } }, { state: "done", result: { loud: true } }],
    ["failed", { error: "no voice" }, { state: "retrying", lastError: "no voice", attempt: 1 }],
    ["retry", { error: "later", afterSeconds: 60 }, { state: "retrying", lastError: "later" }],
    ["snooze", { afterSeconds: 60 }, { attempt: 0, history: [{ outcome: "snoozed" }] }],
    ["throttled", { afterSeconds: 60, scope: "job" }, { attempt: 0, history: [{ outcome: "throttled" }] }],
    ["dead", { error: "never" }, { state: "dead", reason: "rejected", lastError: "never" }],
    ["returned", {}, { attempt: 0, history: [{ outcome: "interrupted by shutdown" }] }]
  ] as const)("ends an attempt as %s, and once if the request is repeated", ([outcome, end, became]) =>
    Effect.gen(function* () {
      const { claimOne, enqueue } = workOf(`ends-${outcome}`)
      const id = yield* enqueue({ text: "hi" })
      const job = yield* claimOne()
      expect(job).toMatchObject({ id, attempt: 1, payload: { text: "hi" } })
      const first = yield* finish(job, { outcome, ...end })
      expect(first).toMatchObject({ status: 200, json: { jobs: [{ id, error: null }] } })
      const after = yield* stored(id)
      expect(after).toMatchObject(became)
      const second = yield* finish(job, { outcome, ...end })
      expect(second.json).toEqual(first.json)
      expect(yield* stored(id)).toEqual(after)
    })
  )

  it.effect("waits for a job", () =>
    Effect.gen(function* () {
      const { claimOne, enqueue } = workOf("waits")
      const waiting = yield* Effect.fork(claimOne())
      const id = yield* enqueue(1)
      expect(yield* Fiber.join(waiting)).toMatchObject({ id })
    })
  )

  it.effect("refuses the result of a worker that has lost its job to another", () =>
    Effect.gen(function* () {
      const { claimOne, enqueue } = workOf("lost")
      const id = yield* enqueue(1)
      const first = yield* claimOne()
      yield* Effect.flatMap(Queue, (queue) => queue.recoverStuck(Duration.zero))
      const second = yield* claimOne({ id: "two" })
      expect(second.id).toBe(id)
      expect((yield* finish(first, { outcome: "done", result: "late" })).json).toMatchObject(lost)
      expect((yield* heartbeat(first)).json).toMatchObject({ jobs: [], stop: [{ id, reason: "lost" }] })
      // The lease alone is not enough: the job is the other worker's.
      expect((yield* finish(second, { outcome: "dead", error: "stolen" })).json).toMatchObject(lost)
      expect((yield* heartbeat(second, { progress: "stolen" })).json).toEqual({
        jobs: [],
        stop: [{ id, lease: second.lease, reason: "lost" }]
      })
      expect(yield* stored(id)).toMatchObject({ state: "running", progress: null })
      expect((yield* finish(second, { outcome: "done" }, { id: "two" })).json).toMatchObject({
        jobs: [{ status: "done", error: null }]
      })
      expect(yield* stored(id)).toMatchObject({ state: "done", result: null })
    })
  )

  it.effect("tells a worker which jobs to stop", () =>
    Effect.gen(function* () {
      const { claimOne, enqueue } = workOf("stop")
      const { admin } = yield* TestServer
      const id = yield* enqueue(1)
      const job = yield* claimOne()
      expect((yield* heartbeat(job)).json).toMatchObject({ jobs: [{ id }], stop: [] })
      yield* admin("POST", `/api/v1/jobs/${id}/cancel`)
      expect((yield* heartbeat(job)).json).toMatchObject({ stop: [{ id, reason: "cancelled" }] })
      yield* finish(job, { outcome: "cancelled" })
      expect(yield* stored(id)).toMatchObject({ state: "cancelled" })
    })
  )

  it.effect("cancels a job whose worker goes on after the cancel, at its deadline", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      for (const attempts of [5, 1]) {
        const id = yield* enqueue(1, { queue: "hung", attempts })
        const job = yield* claimOne(worker, "hung")
        yield* admin("POST", `/api/v1/jobs/${id}/cancel`)
        const past = { deadline: "2020-01-01T00:00:00Z" }
        expect((yield* heartbeat(job, past)).json).toMatchObject({ jobs: [], stop: [{ id, reason: "timeout" }] })
        expect(yield* stored(id)).toMatchObject({ state: "cancelled" })
      }
    })
  )

  it.effect("ends attempts past their deadline, unless the worker extends it", () =>
    Effect.gen(function* () {
      const { claimOne, enqueue } = workOf("deadline")
      const id = yield* enqueue(1)
      const job = yield* claimOne()
      const past = { deadline: "2020-01-01T00:00:00Z" }
      const kept = yield* heartbeat(job, { ...past, extendSeconds: 3_600 })
      const [{ deadline } = job] = jobsOf(kept)
      expect(Date.parse(deadline)).toBeGreaterThan(Date.parse(job.deadline))
      expect((yield* heartbeat(job, past)).json).toMatchObject({ jobs: [], stop: [{ id, reason: "timeout" }] })
      expect(yield* stored(id)).toMatchObject({ state: "retrying", lastError: expect.stringContaining("timed out") })
      expect((yield* finish(job, { outcome: "done" })).json).toMatchObject({ jobs: [{ status: "pending" }] })
    })
  )

  it.effect("counts the first end if a request ends an attempt twice", () =>
    Effect.gen(function* () {
      const { claimOne, enqueue } = workOf("twice")
      for (const [first, second] of [
        [{ outcome: "done", result: 1 }, { outcome: "returned" }],
        [{ outcome: "done" }, { outcome: "dead", error: "no" }],
        [
          { outcome: "dead", error: "no" },
          { outcome: "done", result: 1 }
        ]
      ] as const) {
        const id = yield* enqueue(1)
        const { lease } = yield* claimOne()
        const jobs = [first, second].map((end) => ({ id, lease, ...end }))
        const status = first.outcome
        expect((yield* post("finish", { worker, jobs })).json).toMatchObject({ jobs: [{ status }, { status }] })
        expect(yield* stored(id)).toMatchObject({ state: status, attempt: 1 })
      }
    })
  )

  it.effect("stores the results of jobs whose log or error has text that PostgreSQL cannot store", () =>
    Effect.gen(function* () {
      const { claimOne, enqueue } = workOf("unstorable")
      const { admin } = yield* TestServer
      const id = yield* enqueue(1)
      const job = yield* claimOne()
      const end = { outcome: "dead", error: "a\u0000b", log: [{ message: `c\u0000d${"x".repeat(100_000)}` }] }
      expect((yield* finish(job, end)).json).toMatchObject({ jobs: [{ status: "dead", error: null }] })
      expect(yield* stored(id)).toMatchObject({ lastError: "a\ufffdb" })
      expect((yield* admin("GET", `/api/v1/jobs/${id}/logs`)).text).toContain("xxxx")
    })
  )

  const id = "0198c0de-0000-7000-8000-000000000001"
  const job = { id, lease: id, outcome: "done" }
  const invalid = [
    ["claim", {}, "worker"],
    ["claim", { worker }, "queues"],
    ["claim", { ...plain, waitSeconds: -1 }, "waitSeconds"],
    ["claim", { ...plain, waitSeconds: 3_600 }, "waitSeconds"],
    ["claim", { ...plain, max: 0 }, "max"],
    ["claim", { ...plain, max: 1_001 }, "max"],
    ["claim", { ...plain, queues: [] }, "queues"],
    ["claim", { ...plain, queues: ["no spaces"] }, "queues[0]"],
    ["claim", { ...plain, kinds: ["plain", "greet"] }, "kinds[1]"],
    ["claim", { ...plain, kinds: ["x".repeat(129)] }, "kinds[0]"],
    ["claim", { ...plain, kinds: [""] }, "kinds[0]"],
    ["claim", { ...plain, worker: { id: "" } }, "worker.id"],
    ["claim", { ...plain, nonsense: 1 }, "nonsense"],
    ["heartbeat", { worker, jobs: [{ id: "x", lease: id }] }, "jobs[0].id"],
    ["heartbeat", { worker, jobs: Array.from({ length: 1_001 }, () => job) }, "jobs"],
    ["finish", { worker, jobs: [] }, "jobs"],
    ["finish", { worker, jobs: Array.from({ length: 200_000 }, () => 1) }, "jobs"],
    ["finish", { worker, jobs: [{ ...job, outcome: "maybe" }] }, "jobs[0].outcome"],
    ["finish", { worker, jobs: [{ ...job, outcome: "failed" }] }, "jobs[0].error"],
    ["finish", { worker, jobs: [{ ...job, outcome: "snooze" }] }, "jobs[0].afterSeconds"],
    ["finish", { worker, jobs: [{ ...job, afterSeconds: -1 }] }, "jobs[0].afterSeconds"]
  ] as const
  it.effect("refuses invalid requests, and names the field", () =>
    Effect.gen(function* () {
      for (const [call, json, field] of invalid)
        expect(yield* post(call, json)).toMatchObject({ status: 400, json: { error: { field } } })
    })
  )

  it.effect.each([
    ["", "worker.id must not be empty."],
    ["a\u0000", "worker.id must not contain NUL characters or unpaired surrogates."],
    ["x".repeat(201), "worker.id must be at most 200 characters long."],
    [7, "worker.id must be text."]
  ] as const)("says what is wrong with a worker's id (%j)", ([id, message]) =>
    Effect.gen(function* () {
      expect((yield* post("claim", { ...plain, worker: { id } })).json).toMatchObject({ error: { message } })
    })
  )

  it.effect("answers for leases that do not exist", () =>
    Effect.gen(function* () {
      expect((yield* post("finish", { worker, jobs: [job] })).json).toMatchObject(lost)
      expect((yield* post("heartbeat", { worker, jobs: [{ id, lease: id }] })).json).toMatchObject({
        stop: [{ id, reason: "lost" }]
      })
    })
  )
})

describe.each(backends)("work over HTTP with its own server (%s)", (_, layer) => {
  it.scopedLive("stores the log lines and the progress of an attempt", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const id = yield* enqueue({ password: "sesame" })
      const job = yield* claimOne()
      expect((yield* heartbeat(job, { progress: { at: 1 } })).json).toMatchObject({ jobs: [{ error: null }] })
      const message = "progress must not contain NUL characters or unpaired surrogates."
      const refused = { jobs: [{ id, error: { tag: "InvalidJob", message } }] }
      expect(yield* heartbeat(job, { progress: "a\u0000b" })).toMatchObject({ status: 200, json: refused })
      expect(yield* stored(id)).toMatchObject({ progress: { at: 1 } })
      yield* finish(job, { outcome: "done", log: [{ level: "warn", message: "password=sesame" }] })
      const { text } = yield* admin("GET", `/api/v1/jobs/${id}/logs`)
      expect(text).toContain("warn")
      expect(text).not.toContain("sesame")
    }).pipe(Effect.provide(layer({ mask: ["password"] })))
  )

  it.scopedLive("shows a worker the subject of its job, and erases what it reported and stored", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const [subject, marker] = ["customer:42", "Ada Lovelace"]
      const id = yield* enqueue(marker, { subject })
      const job = yield* claimOne()
      expect(job.meta).toEqual({ subjectDigest: digestOf(subject) })
      const next = yield* enqueue(marker, { meta: job.meta, delay: "1h" })
      yield* heartbeat(job, { progress: { for: marker } })
      yield* finish(job, { outcome: "dead", error: `no ${marker}`, log: [{ message: `hello ${marker}` }] })
      const erased = yield* admin("POST", "/api/v1/erase", { json: { subject } })
      expect(erased.json).toMatchObject({ erased: { jobs: 2 }, done: true })
      for (const path of [id, next, `${id}/logs`])
        expect((yield* admin("GET", `/api/v1/jobs/${path}`)).text).not.toContain(marker)
      expect((yield* finish(job, { outcome: "done", log: [{ message: marker }] })).status).toBe(200)
      expect((yield* heartbeat(job, { progress: marker })).json).toMatchObject({ stop: [{ reason: "lost" }] })
      for (const path of [id, `${id}/logs`])
        expect((yield* admin("GET", `/api/v1/jobs/${path}`)).text).not.toContain(marker)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("returns jobs of a client that has disconnected, with their attempt", () =>
    Effect.gen(function* () {
      const { admin, port } = yield* TestServer
      const { send, vanish } = yield* RawClient.make(port)
      const body = JSON.stringify({ ...plain, waitSeconds: 50 })
      yield* send(
        `POST /api/v1/work/claim HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${adminToken}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
      )
      yield* Effect.repeat(admin("GET", "/api/v1/pods"), {
        until: ({ text }) => text.includes("shouter"),
        schedule: Schedule.spaced("20 millis")
      })
      yield* vanish
      const id = yield* enqueue(1)
      expect(yield* claimOne({ id: "two" })).toMatchObject({ id, attempt: 1 })
      expect(yield* stored(id)).toMatchObject({ history: [] })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("gives no worker more jobs of a queue than its maximum of workers", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* post("claim", plain)
      yield* admin("PATCH", "/api/v1/queues/default", { json: { maxWorkers: 2 } })
      for (const payload of [1, 2, 3]) yield* enqueue(payload)
      // A worker is assigned its slots when it joins.
      const by = { id: "limited" }
      const many = { ...plain, worker: by, max: 10 }
      yield* post("heartbeat", { worker, jobs: [], leave: true })
      const [first, ...rest] = jobsOf(yield* post("claim", many))
      expect(rest).toHaveLength(1)
      expect(jobsOf(yield* post("claim", many))).toEqual([])
      if (first !== undefined) yield* finish(first, { outcome: "done" }, by)
      expect(jobsOf(yield* post("claim", many))).toHaveLength(1)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("registers kinds that no process has, and leaves jobs of other kinds", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const json = { kind: "shout", payload: 1 }
      expect(yield* admin("POST", "/api/v1/jobs", { json })).toMatchObject({ status: 422 })
      const shouts = { worker, queues: ["python"], kinds: ["shout"], max: 5 }
      expect(jobsOf(yield* post("claim", shouts))).toEqual([])
      const other = yield* enqueue(1, { queue: "python" })
      expect(yield* admin("POST", "/api/v1/jobs", { json })).toMatchObject({ status: 201 })
      expect(jobsOf(yield* post("claim", shouts))).toMatchObject([{ kind: "shout", queue: "python" }])
      // The response does not wait until a claimed job of another kind is back in the queue.
      const left = yield* Effect.repeat(stored(other), {
        until: (job: unknown) => (job as { readonly state: string }).state !== "running"
      })
      expect(left).toMatchObject({ state: expect.not.stringMatching(/dead/), attempt: 0 })
      // The queue of a registered kind is known.
      expect(yield* post("claim", { worker, kinds: ["shout"] })).toMatchObject({ status: 200 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("lists workers among the processes until they leave", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* post("claim", plain)
      expect((yield* admin("GET", "/api/v1/pods")).json).toMatchObject({
        pods: [
          {
            label: "shouter",
            remote: true,
            queues: ["default"],
            kinds: ["plain"],
            host: { name: "box", node: "python 3.12" }
          }
        ]
      })
      yield* post("heartbeat", { worker, jobs: [], leave: true })
      expect((yield* admin("GET", "/api/v1/pods")).json).toMatchObject({ pods: [] })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("answers a result that was sent twice at once as stored, both times", () =>
    Effect.gen(function* () {
      const count = 10
      yield* Effect.replicateEffect(enqueue(1), count)
      const jobs = jobsOf(yield* post("claim", { ...plain, max: count, waitSeconds: 20 }))
      expect(jobs.length).toBe(count)
      const sent = jobs.flatMap((job) => [job, job]).map((job) => finish(job, { outcome: "done", result: 2 }))
      const answers = yield* Effect.all(sent, { concurrency: "unbounded" })
      for (const { json } of answers) expect(json).toMatchObject({ jobs: [{ status: "done" }] })
    }).pipe(Effect.provide(layer()))
  )

  const token = "worker-sesame-worker-sesame"
  const config = { workerTokens: Option.some(Redacted.make(`${token}:default,mail other-${token}:*`)) }
  it.scopedLive("restricts a worker's token to its queues and to the routes of workers", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      const claim = (queues: ReadonlyArray<string>, by: string) =>
        ask("POST", "/api/v1/work/claim", { token: by, json: { worker, queues } })
      expect(yield* claim(["default", "mail"], token)).toMatchObject({ status: 200 })
      expect(yield* claim(["default", "secret"], token)).toMatchObject({
        status: 403,
        json: { error: { message: expect.stringContaining('"secret"') } }
      })
      expect(yield* claim(["secret"], `other-${token}`)).toMatchObject({ status: 200 })
      expect(yield* claim(["default"], viewerToken)).toMatchObject({ status: 403 })
      expect(yield* claim(["default"], `${token}x`)).toMatchObject({ status: 401 })
      expect(yield* ask("GET", "/api/v1/jobs", { token })).toMatchObject({ status: 403 })
      expect(yield* ask("POST", "/api/v1/jobs", { token, json: {} })).toMatchObject({ status: 403 })
      expect(yield* ask("POST", "/api/v1/session", { json: { token } })).toMatchObject({ status: 401 })
      // The same worker id with another token is another worker.
      yield* enqueue(1)
      const [held] = jobsOf(yield* claim(["default"], token))
      const stolen = yield* ask("POST", "/api/v1/work/finish", {
        token: `other-${token}`,
        json: { worker, jobs: [{ id: held?.id, lease: held?.lease, outcome: "done" }] }
      })
      expect(stolen.json).toMatchObject(lost)
    }).pipe(Effect.provide(layer(config)))
  )
})

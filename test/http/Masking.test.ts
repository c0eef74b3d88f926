import { describe, expect, it } from "@effect/vitest"
import { Effect, Logger, Option, Schema } from "effect"
import { PodId } from "../../src/core/Ids.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { Operations } from "../../src/queue/admin/Operations.js"
import { Queue } from "../../src/queue/Queue.js"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import * as LogLine from "../../src/telemetry/LogLine.js"
import * as Masking from "../../src/telemetry/Masking.js"
import { listen } from "./EventListener.js"
import { adminToken, layer, TestServer, viewerToken } from "./TestServer.js"

const payload = { name: "Ada", password: "hunter2", deep: [{ EMail: "ada@example.org", city: "London" }] }

describe("fields named in NIGHTSHIFT_MASK", () => {
  it.scopedLive("are hidden from viewers in every payload, and not from admins", () =>
    Effect.gen(function* () {
      const { admin, viewer } = yield* TestServer
      const { text } = yield* admin("POST", "/api/v1/jobs", { json: { jobs: [{ kind: "greet", payload }] } })
      const [{ id }] = JSON.parse(text).jobs
      yield* admin("PATCH", `/api/v1/jobs/${id}`, { json: { payload: { ...payload, password: "hunter3" } } })
      const filter = { payload: { password: "hunter3" } }
      yield* admin("POST", "/api/v1/jobs/bulk", { json: { action: "cancel", filter } })
      yield* admin("POST", "/api/v1/views", { json: { name: "theirs", page: "jobs", filter } })
      const places = ["jobs", `jobs/${id}`, "audit", "operations", "views"].map((place) => `/api/v1/${place}`)
      for (const place of places) {
        const seen = yield* viewer("GET", place)
        expect(seen.status).toBe(200)
        expect(seen.text).not.toMatch(/hunter|ada@example/)
        expect(seen.text).toContain(Masking.masked)
        expect((yield* admin("GET", place)).text).toContain("hunter3")
      }
      expect(yield* viewer("GET", `/api/v1/jobs/${id}`)).toMatchObject({
        json: { payload: { name: "Ada", password: "[masked]", deep: [{ EMail: "[masked]", city: "London" }] } }
      })
    }).pipe(Effect.provide(layer({ mask: ["password", "email"] })))
  )

  it.scopedLive("are hidden from viewers in schedules", () =>
    Effect.gen(function* () {
      const { admin, viewer } = yield* TestServer
      const json = { name: "nightly", kind: "greet", cron: "0 3 * * *", payload }
      expect(yield* admin("POST", "/api/v1/schedules", { json })).toMatchObject({ status: 201 })
      for (const place of ["schedules", "schedules/nightly", "audit"].map((place) => `/api/v1/${place}`)) {
        const seen = yield* viewer("GET", place)
        expect(seen.status).toBe(200)
        expect(seen.text).not.toMatch(/hunter|ada@example/)
        expect(seen.text).toContain("London")
        expect((yield* admin("GET", place)).text).toContain("hunter2")
      }
    }).pipe(Effect.provide(layer({ mask: ["password", "email"] })))
  )

  it.scopedLive("are hidden from viewers in errors that were stored before the setting", () =>
    Effect.gen(function* () {
      const { admin, viewer } = yield* TestServer
      const queue = yield* Queue
      const { text } = yield* admin("POST", "/api/v1/jobs", { json: { jobs: [{ kind: "greet", payload }] } })
      const [{ id }] = JSON.parse(text).jobs
      const [job] = yield* queue.claim({
        queue: "mail",
        pod: Schema.decodeSync(PodId)("0198c0de-0000-7000-8000-000000000001"),
        limit: 1
      })
      const error = `Expected a number, actual "hunter2" in ${JSON.stringify(payload)}`
      const end = End.Again({ runAt: 0, counted: true, error, remember: "failed" })
      yield* queue.finalize([{ id, lease: job?.lease as never, end, queue: "mail", key: undefined }])
      const seen = yield* viewer("GET", `/api/v1/jobs/${id}`)
      expect(seen).toMatchObject({ json: { lastError: expect.stringContaining("Expected a number") } })
      expect(seen.text).not.toMatch(/hunter|ada@example/)
      expect((yield* admin("GET", `/api/v1/jobs/${id}`)).text).toContain("hunter2")
    }).pipe(Effect.provide(layer({ mask: ["password", "email"] })))
  )

  it.scopedLive("are hidden from viewers wherever such errors are quoted", () =>
    Effect.gen(function* () {
      const { admin, viewer } = yield* TestServer
      const queue = yield* Queue
      const { id } = JSON.parse((yield* admin("POST", "/api/v1/jobs", { json: { kind: "greet", payload } })).text)
      const pod = Schema.decodeSync(PodId)("0198c0de-0000-7000-8000-000000000001")
      const [job] = yield* queue.claim({ queue: "mail", pod, limit: 1 })
      const end = End.Dead({
        error: "login refused: password=hunter-two",
        counted: true,
        reason: "rejected",
        remember: "failed"
      })
      yield* queue.finalize([{ id, lease: job?.lease as never, end, queue: "mail", key: undefined }])
      expect((yield* admin("DELETE", `/api/v1/jobs/${id}`)).status).toBe(200)
      const undone = { json: { undo: JSON.parse((yield* admin("GET", "/api/v1/audit")).text).entries[0].id } }
      expect((yield* admin("POST", `/api/v1/jobs/${id}/undo`, undone)).status).toBe(200)
      for (const place of ["jobs/groups", "changes", "audit", "jobs"].map((place) => `/api/v1/${place}`)) {
        expect((yield* admin("GET", place)).text, place).toContain("hunter-two")
        const seen = yield* viewer("GET", place)
        expect(seen.status).toBe(200)
        expect(seen.text, place).toContain("password=[masked]")
        expect(seen.text, place).not.toContain("hunter-two")
      }
      // The filter of a group has the shape of its errors. With masked text in it, it would match no job.
      expect((yield* admin("GET", "/api/v1/jobs/groups")).json).toMatchObject({
        groups: [{ filter: { kind: "greet", shape: "login refused: password=hunter-two" } }]
      })
      expect((yield* viewer("GET", "/api/v1/jobs/groups")).json).toMatchObject({
        groups: [{ shape: "login refused: password=[masked]", filter: null }]
      })
      // All callers of a cell share its figures.
      const cell = yield* admin("GET", "/api/v1/cell")
      expect(cell.text).toContain("password=[masked]")
      expect(cell.text).not.toContain("hunter-two")
      const errorsFor = (token: string) =>
        Effect.gen(function* () {
          const events = yield* listen("/api/v1/events", { authorization: `Bearer ${token}` })
          return JSON.stringify((yield* events.heard("snapshot")).data)
        })
      expect(yield* errorsFor(adminToken)).toContain("hunter-two")
      const seen = yield* errorsFor(viewerToken)
      expect(seen).toContain("password=[masked]")
      expect(seen).not.toContain("hunter-two")
    }).pipe(Effect.provide(layer({ mask: ["password", "email"] })))
  )

  it.scopedLive("are hidden from viewers in what executions store, even if executions have fields of that name", () =>
    Effect.gen(function* () {
      const { admin, viewer } = yield* TestServer
      const workflows = yield* Workflows
      const queue = yield* Queue
      const secret = { reason: "hunter2", id: "hunter2", city: "London" }
      const started = { workflow: "greet", key: "Ada", payload: secret, tags: { state: "hunter2", city: "London" } }
      expect((yield* admin("POST", "/api/v1/workflows", { json: started })).status).toBe(201)
      const pod = Schema.decodeSync(PodId)("0198c0de-0000-7000-8000-000000000001")
      const [run] = yield* queue.claim({ queue: "mail", pod, limit: 1 })
      if (run === undefined) return yield* Effect.dieMessage("the execution was not claimed")
      yield* workflows.record(run, {
        name: "charge",
        kind: "run",
        attempt: 1,
        sequence: 1,
        outcome: "done",
        exit: { value: secret },
        startedAt: 0
      })
      const path = `/api/v1/workflows/${encodeURIComponent("greet/Ada")}`
      expect((yield* admin("POST", `${path}/signal`, { json: { name: "go", value: secret } })).status).toBe(200)
      const listed = yield* viewer("GET", "/api/v1/workflows")
      const shown = yield* viewer("GET", path)
      for (const { text } of [listed, shown]) expect(text).not.toContain("hunter2")
      expect(listed).toMatchObject({
        status: 200,
        json: { executions: [{ id: run.id, state: "running", payload: { city: "London", reason: "[masked]" } }] }
      })
      expect(shown).toMatchObject({
        status: 200,
        json: {
          tags: { city: "London", state: "[masked]" },
          steps: [{ name: "charge", exit: { value: { id: "[masked]", city: "London" } } }],
          deferreds: [{ name: "go", value: { id: "[masked]", city: "London" } }]
        }
      })
      expect((yield* admin("GET", path)).text).toContain("hunter2")
    }).pipe(
      Effect.provide(
        layer({
          mask: "reason,id,state,kind,version,name,tags,values,attempt,outcome,position,count,createdAt".split(",")
        })
      )
    )
  )

  it.scopedLive("are hidden from viewers in the errors of steps that failed", () =>
    Effect.gen(function* () {
      const { admin, viewer } = yield* TestServer
      const workflows = yield* Workflows
      const queue = yield* Queue
      const started = { workflow: "greet", key: "Ada", payload }
      expect((yield* admin("POST", "/api/v1/workflows", { json: started })).status).toBe(201)
      const pod = Schema.decodeSync(PodId)("0198c0de-0000-7000-8000-000000000001")
      const [run] = yield* queue.claim({ queue: "mail", pod, limit: 1 })
      if (run === undefined) return yield* Effect.dieMessage("the execution was not claimed")
      const failures = [{ position: 0, error: "login refused: password=hunter-three" }]
      yield* workflows.record(run, {
        name: "charge",
        kind: "run",
        attempt: 1,
        sequence: 1,
        outcome: "failed",
        exit: { error: { name: "Error", message: 'password=hunter-two, actual "ada@example.org"', failures } },
        startedAt: 0
      })
      const path = `/api/v1/workflows/${encodeURIComponent("greet/Ada")}`
      const seen = yield* viewer("GET", path)
      expect(seen).toMatchObject({
        json: {
          steps: [
            {
              exit: {
                error: {
                  name: "Error",
                  message: 'password=[masked], actual "[masked]"',
                  failures: [{ position: 0, error: "login refused: password=[masked]" }]
                }
              }
            }
          ]
        }
      })
      expect(seen.text).not.toMatch(/hunter|ada@example/)
      expect((yield* admin("GET", path)).text).toMatch(/hunter-two.*hunter-three/)
    }).pipe(Effect.provide(layer({ mask: ["password", "email"] })))
  )

  it.scopedLive("are hidden from viewers in what bulk actions quote of a job", () =>
    Effect.gen(function* () {
      const { admin, viewer } = yield* TestServer
      const queue = yield* Queue
      const operations = yield* Operations
      const { id } = JSON.parse((yield* admin("POST", "/api/v1/jobs", { json: { kind: "greet", payload } })).text)
      const pod = Schema.decodeSync(PodId)("0198c0de-0000-7000-8000-000000000001")
      const dies = Effect.gen(function* () {
        const [job] = yield* queue.claim({ queue: "mail", pod, limit: 1 })
        const error = "login refused: password=hunter-two"
        const end = End.Dead({ error, counted: true, reason: "rejected", remember: "failed" })
        yield* queue.finalize([{ id, lease: job?.lease as never, end, queue: "mail", key: undefined }])
      })
      yield* dies
      const json = { action: "requeue", filter: { kind: "greet", state: "dead" }, rehearse: 1 }
      const { operation } = JSON.parse((yield* admin("POST", "/api/v1/jobs/bulk", { json })).text)
      const carryOut: Effect.Effect<void, unknown> = Effect.flatMap(operations.step(), (went) =>
        Option.isSome(went) ? carryOut : Effect.void
      )
      yield* carryOut
      yield* dies
      yield* carryOut
      for (const place of ["operations", `operations/${operation}`, "actions"].map((place) => `/api/v1/${place}`)) {
        expect((yield* admin("GET", place)).text, place).toContain("password=hunter-two")
        const seen = yield* viewer("GET", place)
        expect(seen.text, place).toContain("rehearsed jobs failed again: login refused: password=[masked]")
        expect(seen.text, place).not.toContain("hunter")
      }
    }).pipe(Effect.provide(layer({ mask: ["password", "email"] })))
  )

  it.scopedLive("cannot be discovered by viewers through searches", () =>
    Effect.gen(function* () {
      const { admin, viewer } = yield* TestServer
      const tagged = "/api/v1/workflows?tag=email%3Dada@example.org"
      expect(yield* viewer("GET", tagged)).toMatchObject({ status: 403 })
      expect(yield* admin("GET", tagged)).toMatchObject({ status: 200 })
      expect(yield* viewer("GET", "/api/v1/workflows?tag=city%3DLondon")).toMatchObject({ status: 200 })
      const ask = (json: unknown) => `/api/v1/jobs?payload=${encodeURIComponent(JSON.stringify(json))}`
      for (const json of [{ password: "a" }, { deep: [{ email: "b" }] }, [{ Password: {} }]]) {
        expect(yield* viewer("GET", ask(json))).toMatchObject({ status: 403, json: { error: { tag: "Forbidden" } } })
        expect(yield* admin("GET", ask(json))).toMatchObject({ status: 200 })
      }
      expect(yield* viewer("GET", ask({ name: "Ada" }))).toMatchObject({ status: 200 })
    }).pipe(Effect.provide(layer({ mask: ["password", "email"] })))
  )
})

describe("a log", () => {
  it.effect("shows no masked field, whether it was logged as data or as an annotation", () =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      const lineOf = LogLine.make(["password", "email"])
      const logger = Logger.make((options) => void lines.push(LogLine.json(lineOf(options))))
      yield* Effect.log("a job", payload).pipe(
        Effect.annotateLogs({ Password: "hunter2", job: { email: "ada@example.org", id: 7 } }),
        Effect.provide(Logger.replace(Logger.defaultLogger, logger))
      )
      expect(lines.join()).not.toMatch(/hunter2|ada@example/)
      expect(lines.join()).toMatch(/London/)
    })
  )

  it("is unchanged when no field is masked", () => {
    const mask = Masking.make([])
    expect(mask(payload)).toBe(payload)
    let deep: unknown = 7
    for (let depth = 0; depth < 200; depth += 1) deep = { inner: deep, password: depth }
    expect(JSON.stringify(Masking.make(["password"])(deep))).not.toMatch(/\d/)
  })

  it("may have names of any characters, in text too", () => {
    for (const name of ["credit-card", "card number", "ключ", "@pin", "user.name", "a|b", "(x", "\\d", "😀"]) {
      const text = Masking.makeText([name])
      expect(text(`refused: ${name}=4242, city=London`)).toBe(`refused: ${name}=[masked], city=London`)
      expect(text(`xx${name}y=4242`)).toBe(`xx${name}y=4242`)
    }
    expect(Masking.makeText(["user.name"])("userXname=4242")).toBe("userXname=4242")
  })
})

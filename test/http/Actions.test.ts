import { describe, expect, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { Audit } from "../../src/access/Audit.js"
import type { JobId } from "../../src/core/Ids.js"
import { Operations } from "../../src/queue/admin/Operations.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import { setBy } from "../support/SetClock.js"
import { backends, TestServer } from "./TestServer.js"

interface Action {
  readonly text: string
  readonly undone: boolean
  readonly undo: { readonly until: string; readonly request: UndoRequest | null } | null
}

interface UndoRequest {
  readonly method: string
  readonly path: string
  readonly body: unknown
}

const actions = Effect.gen(function* () {
  const { admin } = yield* TestServer
  const { actions }: { actions: ReadonlyArray<Action> } = JSON.parse((yield* admin("GET", "/api/v1/actions")).text)
  return actions
})

/** Each action with whether it can be undone. */
const summary = Effect.map(actions, (all) =>
  all.map(({ text, undo, undone }) => `${text}${undone ? ", undone" : ""}${undo === null ? "" : ", undo"}`)
)

/** Sends the request that the newest action with this text names. */
const undo = (text: string) =>
  Effect.gen(function* () {
    const { admin } = yield* TestServer
    const request = (yield* actions).find((action) => action.text === text)?.undo?.request
    if (request == null) throw new Error(`${text} cannot be undone`)
    return yield* admin(request.method, `/api/v1/${request.path}`, { json: request.body })
  })

/** Runs the operations as a pod would. */
const carryOut: Effect.Effect<void, unknown, Operations> = Effect.flatMap(Operations, ({ step }) =>
  Effect.flatMap(step(), (went) => (Option.isSome(went) ? carryOut : Effect.void))
)

const later = new Date(Date.now() + 3_600_000).toISOString()

const enqueue = Effect.gen(function* () {
  const { admin } = yield* TestServer
  const json = { jobs: [{ kind: "greet", payload: { name: "Ada" }, runAt: later }] }
  const id: string = JSON.parse((yield* admin("POST", "/api/v1/jobs", { json })).text).jobs[0].id
  return id
})

describe.each(backends)("on %s, GET /api/v1/actions", (_, layer) => {
  it.scopedLive("lists actions on jobs, and the request of each undoes it once", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const [one, other] = [yield* enqueue, yield* enqueue]
      yield* admin("POST", `/api/v1/jobs/${one}/cancel`)
      const bulk = { action: "delete", ids: [other], reason: "sent twice" }
      yield* admin("POST", "/api/v1/jobs/bulk", { json: bulk })
      expect((yield* actions)[0]).toMatchObject({ text: "0 jobs deleted", running: true, undo: null })
      yield* carryOut
      expect(yield* summary).toEqual(["1 job deleted, undo", "greet cancelled, undo"])
      expect((yield* actions)[0]).toMatchObject({ who: "api:admin", reason: "sent twice", jobs: 1, running: false })
      expect(yield* undo("greet cancelled")).toMatchObject({ status: 200, json: { state: "scheduled" } })
      expect((yield* undo("1 job deleted")).status).toBe(202)
      yield* carryOut
      expect(yield* admin("GET", `/api/v1/jobs/${other}`)).toMatchObject({ json: { state: "scheduled" } })
      expect(yield* summary).toEqual(["1 job deleted, undone", "greet cancelled, undone"])
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("says why a bulk action stopped", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const ids = [yield* enqueue, yield* enqueue]
      yield* admin("POST", "/api/v1/jobs/bulk", { json: { action: "cancel", ids } })
      yield* carryOut
      yield* admin("POST", "/api/v1/jobs/bulk", { json: { action: "requeue", ids, rehearse: 1 } })
      yield* carryOut
      expect((yield* actions)[0]).toMatchObject({ text: "1 job requeued", running: true, error: null })
      for (const id of ids) yield* admin("POST", `/api/v1/jobs/${id}/cancel`)
      yield* carryOut
      const all = yield* actions
      expect(all.find(({ text }) => text === "1 job requeued")).toMatchObject({
        running: false,
        error: "1 of 1 rehearsed jobs failed again. The others were not requeued."
      })
      expect(all.find(({ text }) => text === "2 jobs cancelled")).toMatchObject({ error: null })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("counts the hour of a bulk action from its end, however long ago it began", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const id = yield* enqueue
      const began = yield* Effect.gen(function* () {
        const target = { ids: [id as JobId] }
        const operation = yield* Effect.flatMap(Operations, ({ begin }) =>
          begin({ action: "cancel", target, who: "ada" })
        )
        const audit = yield* Audit
        yield* audit.record({ act: "jobs.cancel", target: operation.id, who: "ada" })
        yield* audit.record({ act: "schedule.trigger", target: "nightly", who: "ada" })
        return operation
      }).pipe(yield* setBy(-7_200_000))
      expect(Date.now() - began.createdAt).toBeGreaterThan(3_600_000)
      expect(yield* actions).toMatchObject([{ text: "0 jobs cancelled", undo: null }])
      yield* carryOut
      const { finishedAt } = JSON.parse((yield* admin("GET", `/api/v1/operations/${began.id}`)).text)
      const until = new Date(Date.parse(finishedAt) + 3_600_000).toISOString()
      expect(yield* actions).toMatchObject([{ text: "1 job cancelled", undo: { until } }])
      expect((yield* undo("1 job cancelled")).status).toBe(202)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("does not offer to undo what has changed since", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const id = yield* enqueue
      yield* admin("POST", `/api/v1/jobs/${id}/cancel`)
      yield* admin("POST", `/api/v1/jobs/${id}/requeue`)
      expect(yield* summary).toEqual(["greet requeued, undo", "greet cancelled"])
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("restores settings of a queue, a deleted schedule and a deleted view", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* Effect.flatMap(Queues, ({ declare }) => declare(["mail"]))
      yield* admin("PATCH", "/api/v1/queues/mail", { json: { paused: true } })
      yield* admin("PATCH", "/api/v1/queues/mail", { json: { maxWorkers: 50 } })
      const schedule = { name: "nightly", kind: "greet", payload: { name: "Ada" }, cron: "0 3 * * *" }
      yield* admin("POST", "/api/v1/schedules", { json: schedule })
      yield* admin("DELETE", "/api/v1/schedules/nightly")
      const view = { name: "mine", page: "dead", filter: { kind: "greet" } }
      const made = JSON.parse((yield* admin("POST", "/api/v1/views", { json: view })).text)
      yield* admin("DELETE", `/api/v1/views/${made.id}`)
      expect(yield* summary).toEqual([
        "view mine deleted, undo",
        "view mine created",
        "schedule nightly deleted, undo",
        "schedule nightly created",
        "queue mail: 10 to 50 workers, undo",
        "queue mail paused"
      ])
      yield* Effect.forEach(["queue mail: 10 to 50 workers", "schedule nightly deleted", "view mine deleted"], (text) =>
        Effect.map(undo(text), ({ status }) => expect(status).toBeLessThan(300))
      )
      expect(yield* admin("GET", "/api/v1/schedules/nightly")).toMatchObject({ json: schedule })
      expect(yield* admin("GET", "/api/v1/views")).toMatchObject({ json: { views: [view] } })
      const { queues } = JSON.parse((yield* admin("GET", "/api/v1/queues")).text)
      expect(queues).toMatchObject([{ name: "mail", maxWorkers: 10, paused: true }])
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("restores a deleted schedule with its subject, whose erasure then finds it", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const subject = "customer:grace"
      const schedule = { name: "yearly", kind: "greet", payload: { name: "Grace" }, cron: "@yearly", subject }
      const erasure = { json: { subject, dryRun: true } }
      expect((yield* admin("POST", "/api/v1/schedules", { json: schedule })).status).toBe(201)
      yield* admin("DELETE", "/api/v1/schedules/yearly")
      expect(yield* admin("POST", "/api/v1/erase", erasure)).toMatchObject({ json: { found: { schedules: 0 } } })
      expect((yield* undo("schedule yearly deleted")).status).toBe(201)
      expect(yield* admin("POST", "/api/v1/erase", erasure)).toMatchObject({ json: { found: { schedules: 1 } } })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("shows viewers for how long an action can be undone, not how", () =>
    Effect.gen(function* () {
      const { admin, viewer } = yield* TestServer
      yield* admin("POST", `/api/v1/jobs/${yield* enqueue}/cancel`)
      const { actions } = JSON.parse((yield* viewer("GET", "/api/v1/actions")).text)
      expect(actions).toMatchObject([{ undo: { until: expect.stringMatching(/Z$/), request: null } }])
    }).pipe(Effect.provide(layer()))
  )
})

import { expect, layer } from "@effect/vitest"
import { Clock, Duration, Effect } from "effect"
import { type PodFacts, Pods } from "../../src/cluster/Pods.js"
import { makeGenerator } from "../../src/core/Ids.js"
import { End } from "../../src/queue/AttemptEnd.js"
import type { NewJob } from "../../src/queue/NewJob.js"
import { type ClaimedJob, Queue } from "../../src/queue/Queue.js"
import { type QueueSettingsPatch, Queues } from "../../src/queue/settings/QueueSettings.js"
import { RateLimits } from "../../src/rate-limits/RateLimits.js"
import { layerPostgres, TestServer } from "./TestServer.js"

const lease = Duration.seconds(15)

/** A pod with its own queue, and helpers to act on it. */
const line = (name: string, pod: Partial<PodFacts> & { readonly busy?: number; readonly draining?: boolean } = {}) =>
  Effect.gen(function* () {
    const { viewer } = yield* TestServer
    const pods = yield* Pods
    const queue = yield* Queue
    const queues = yield* Queues
    const now = yield* Clock.currentTimeMillis
    const { busy = 2, draining = false, ...facts } = pod
    const id = (yield* makeGenerator).pod(now)
    const slots = [{ queue: name, wanted: 2, have: 2, busy }]
    yield* pods.beat(
      {
        id,
        label: `${name}-worker`,
        version: "1.0.0",
        queues: [name],
        kinds: ["greet"],
        releases: {},
        host: { name: "here", pid: 17, node: "v20.0.0" },
        startedAt: now,
        ...facts
      },
      { slots, draining },
      lease
    )
    yield* queues.declare([name])
    const put = (more: Partial<NewJob> = {}) =>
      Effect.map(
        queue.enqueue([{ kind: "greet", version: 3, queue: name, payload: {}, attempts: 5, ...more }]),
        ([stored]) => stored?.id ?? ""
      )
    const take = Effect.flatMap(queue.claim({ queue: name, pod: id, limit: 1 }), ([job]) =>
      job === undefined ? Effect.dieMessage("nothing to claim") : Effect.succeed(job)
    )
    const whyOf = (job: string) =>
      Effect.map(viewer("GET", `/api/v1/jobs/${job}/why`), ({ json, status }) => {
        expect(status).toBe(200)
        return json
      })
    return {
      now,
      put,
      take,
      whyOf,
      set: (patch: QueueSettingsPatch) => queues.change(name, patch),
      end: ({ id: job, lease: held }: ClaimedJob, end: End) => queue.finalize([{ id: job, lease: held, end }])
    }
  })

const again = (runAt: number, more: { counted?: boolean; error?: string; remember?: string; cools?: object } = {}) =>
  End.Again({ counted: false, error: undefined, remember: undefined, ...more, runAt } as never)

const instant = (millis: number) => new Date(millis).toISOString()

layer(layerPostgres(), { excludeTestServices: true })("GET /api/v1/jobs/{id}/why", (it) => {
  it.scoped("is readable by viewers, and returns 404 for an unknown job", () =>
    Effect.gen(function* () {
      const { admin, ask, viewer } = yield* TestServer
      const { put } = yield* line("whoever")
      const path = `/api/v1/jobs/${yield* put()}/why`
      expect(yield* ask("GET", path)).toMatchObject({ status: 401 })
      expect(yield* viewer("GET", path)).toMatchObject({ status: 200, json: { reason: "waiting_for_slot" } })
      expect(
        (yield* admin("GET", path.toUpperCase().replace("/API/V1/JOBS", "/api/v1/jobs").replace("WHY", "why"))).json
      ).toEqual((yield* viewer("GET", path)).json)
      expect(yield* viewer("POST", path)).toMatchObject({ status: 403 })
      for (const missing of ["0198c0de-0000-7000-8000-00000000dead", "%00", "'; drop table job; --"]) {
        const answer = yield* viewer("GET", `/api/v1/jobs/${encodeURI(missing)}/why`)
        expect(answer).toMatchObject({ status: 404, json: { error: { tag: "JobNotFound" } } })
      }
      const { paths } = JSON.parse((yield* admin("GET", "/api/v1/openapi.json")).text)
      expect(paths["/api/v1/jobs/{id}/why"].get.responses["200"]).toBeDefined()
    })
  )

  it.scoped("names a pause, a future start time and the limit that throttled the job", () =>
    Effect.gen(function* () {
      const { end, put, set, take, whyOf } = yield* line("time")
      const limits = yield* RateLimits
      yield* limits.register([{ scope: "github", capacity: 5, rate: 1 }])
      const later = (yield* Clock.currentTimeMillis) + 3_600_000
      const scheduled = yield* put({ runAt: later })
      expect(yield* whyOf(scheduled)).toEqual({ reason: "not_due", detail: expect.any(String), until: instant(later) })
      const failed = yield* put()
      yield* end(yield* take, again(later, { counted: true, error: "ECONNREFUSED", remember: "failed" }))
      expect(yield* whyOf(failed)).toMatchObject({ reason: "retrying", until: instant(later) })
      const limited = yield* put()
      yield* end(yield* take, again(later, { remember: "throttled by github" }))
      expect(yield* whyOf(limited)).toMatchObject({
        reason: "rate_limited",
        detail: expect.stringContaining('"github" had no token for it. It now has 5 of 5 tokens.'),
        until: instant(later)
      })
      yield* set({ rate: { jobs: 1, per: Duration.hours(1) } })
      const first = yield* put()
      const second = yield* put()
      const run = yield* take
      expect(run.id).toBe(first)
      expect(yield* whyOf(second)).toMatchObject({ reason: "rate_limited", until: expect.any(String) })
      yield* end(run, again(run.runAt, { remember: "throttled", cools: { scope: "queue", after: 90_000 } }))
      expect(yield* whyOf(second)).toMatchObject({ reason: "cooling_down", until: expect.any(String) })
      yield* set({ paused: true })
      const paused = { reason: "paused", detail: expect.stringContaining('Queue "time" is paused') }
      expect(yield* whyOf(second)).toEqual(paused)
      expect(yield* whyOf(scheduled)).toEqual(paused)
    })
  )

  it.scoped("names the missing pod or kind", () =>
    Effect.gen(function* () {
      const alone = yield* line("alone", { queues: ["other"] })
      expect(yield* alone.whyOf(yield* alone.put())).toMatchObject({ reason: "no_pod" })
      const leaving = yield* line("leaving", { draining: true })
      expect(yield* leaving.whyOf(yield* leaving.put())).toMatchObject({ reason: "no_pod" })
      const foreign = yield* line("foreign")
      const hostile = "<script>alert(1)</script>"
      expect(yield* foreign.whyOf(yield* foreign.put({ kind: hostile }))).toMatchObject({
        reason: "unknown_kind",
        detail: expect.stringContaining(hostile)
      })
    })
  )

  it.scoped("names the earlier job of the same key", () =>
    Effect.gen(function* () {
      const { end, put, set, take, whyOf } = yield* line("keys")
      yield* set({ perKey: { concurrency: 1, order: "strict" } })
      const first = yield* put({ key: "k" })
      const second = yield* put({ key: "k" })
      const run = yield* take
      expect(yield* whyOf(second)).toEqual({ reason: "key_busy", detail: expect.stringContaining(first) })
      const retry = (yield* Clock.currentTimeMillis) + 60_000
      yield* end(run, again(retry, { counted: true, error: "no", remember: "failed" }))
      expect(yield* whyOf(second)).toEqual({
        reason: "key_order",
        detail: expect.stringContaining(first),
        until: instant(retry)
      })
      const hot = yield* put({ key: "hot" })
      const throttled = yield* take
      expect(throttled.id).toBe(hot)
      yield* end(throttled, again(throttled.runAt, { remember: "throttled", cools: { scope: "key", after: 30_000 } }))
      expect(yield* whyOf(hot)).toMatchObject({ reason: "cooling_down", until: expect.any(String) })
    })
  )

  it.scoped("shows a job's position in the queue, where it runs and how it ended", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const { end, put, take, whyOf } = yield* line("life")
      const [done, dead, cancelled] = [yield* put(), yield* put(), yield* put()]
      expect(yield* whyOf(cancelled)).toEqual({
        reason: "waiting_for_slot",
        detail: expect.stringContaining("number 3 in line; 2 of 2 slots")
      })
      const run = yield* take
      expect(yield* whyOf(done)).toEqual({ reason: "running", detail: "It runs in process life-worker." })
      yield* admin("POST", `/api/v1/jobs/${done}/cancel`)
      expect(yield* whyOf(done)).toMatchObject({ reason: "running", detail: expect.stringContaining("asked to stop") })
      yield* end(run, End.Done({ result: undefined }))
      expect(yield* whyOf(done)).toMatchObject({ reason: "done" })
      yield* end(yield* take, End.Dead({ reason: "exhausted", counted: true, error: "no" }))
      expect(yield* whyOf(dead)).toMatchObject({ reason: "dead" })
      yield* admin("POST", `/api/v1/jobs/${cancelled}/cancel`)
      expect(yield* whyOf(cancelled)).toMatchObject({ reason: "cancelled" })
    })
  )
})

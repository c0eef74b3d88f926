import { describe, expect, it } from "@effect/vitest"
import { Clock, Duration, Effect } from "effect"
import { Leadership } from "../../src/cluster/Leadership.js"
import { type PodFacts, Pods } from "../../src/cluster/Pods.js"
import { makeGenerator } from "../../src/core/Ids.js"
import { Queue } from "../../src/queue/Queue.js"
import { backends, layerWithoutDatabase, TestServer, viewerToken } from "./TestServer.js"

const lease = Duration.seconds(15)

/** Two pods: the first leads and the second drains. */
const twoPods = Effect.gen(function* () {
  const pods = yield* Pods
  const leadership = yield* Leadership
  const ids = yield* makeGenerator
  const startedAt = yield* Clock.currentTimeMillis
  const facts = (more: Partial<PodFacts>): PodFacts => ({
    id: ids.pod(startedAt),
    label: undefined,
    version: "1.0.0",
    queues: ["mail"],
    kinds: ["greet"],
    releases: {},
    host: { name: "here", pid: 17, node: "v20.0.0" },
    startedAt,
    ...more
  })
  const leader = facts({ label: "shop-<b>worker</b>-1", queues: ["mail", "push"] })
  const leaving = facts({ queues: ["sms"] })
  const slots = [
    { queue: "mail", wanted: 4, have: 4, busy: 3 },
    { queue: "push", wanted: 2, have: 1, busy: 1 }
  ]
  yield* pods.beat(leader, { slots, draining: false, clockOffset: -2.34 }, lease)
  yield* pods.beat(leaving, { slots: [], draining: true }, lease)
  yield* leadership.campaign(leader.id, lease)
  return { leader, leaving, slots }
})

describe.each(backends)("on %s, GET /api/v1/pods", (where, layer) => {
  it.scopedLive("shows every live pod, the leader, and the queues without a pod", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      const queue = yield* Queue
      const { leader, leaving, slots } = yield* twoPods
      const now = yield* Clock.currentTimeMillis
      const job = { kind: "greet", version: 1, payload: {}, attempts: 5 }
      yield* queue.enqueue([
        { ...job, queue: "mail" },
        { ...job, queue: "sms" },
        { ...job, queue: "later", runAt: now + 3_600_000 }
      ])
      const { json, status } = yield* ask("GET", "/api/v1/pods", { token: viewerToken })
      expect(status).toBe(200)
      expect(json).toEqual({
        pods: [
          {
            id: leader.id,
            label: "shop-<b>worker</b>-1",
            version: "1.0.0",
            queues: ["mail", "push"],
            kinds: ["greet"],
            slots,
            runningJobs: 4,
            host: { name: "here", pid: 17, node: "v20.0.0" },
            startedAt: new Date(leader.startedAt).toISOString(),
            heartbeatAgeSeconds: expect.any(Number),
            clockOffsetSeconds: -2.3,
            server: where === "memory" ? null : expect.stringMatching(/^\S+ since 20\S+Z$/),
            draining: false,
            leader: true,
            remote: false
          },
          expect.objectContaining({ id: leaving.id, label: null, runningJobs: 0, draining: true, leader: false })
        ],
        unservedQueues: ["sms"]
      })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("requires a token, and is empty when no pod runs", () =>
    Effect.gen(function* () {
      const { admin, ask } = yield* TestServer
      expect(yield* ask("GET", "/api/v1/pods")).toMatchObject({ status: 401 })
      expect(yield* admin("GET", "/api/v1/pods")).toMatchObject({ status: 200, json: { pods: [], unservedQueues: [] } })
    }).pipe(Effect.provide(layer()))
  )
})

describe("GET /api/v1/pods without a database", () => {
  it.scopedLive("reports that the database is off", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      expect(yield* admin("GET", "/api/v1/pods")).toMatchObject({
        status: 503,
        json: { error: { tag: "DatabaseOff" } }
      })
    }).pipe(Effect.provide(layerWithoutDatabase()))
  )
})

import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { Events } from "../../src/queue/events/Events.js"
import { Kinds } from "../../src/queue/Kinds.js"
import { backends, TestServer } from "./TestServer.js"

const unknown = "0198c0de-0000-7000-8000-00000000dead"

const schema = JSON.stringify({ type: "object", properties: { name: { type: "string" } }, required: ["name"] })

/** A kind that subscribes to an event. */
const subscribed = Effect.gen(function* () {
  const kinds = yield* Kinds
  const events = yield* Events
  yield* kinds.register([{ name: "welcome", queue: "mail", version: 1, attempts: 3, onDead: undefined, schema }])
  yield* events.subscribe(["welcome"], [{ event: "user.joined", kind: "welcome" }])
})

describe.each(backends)("on %s, /api/v1/publish", (_, layer) => {
  it.scopedLive("publishes an event once per id, shows its jobs and replays it", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* subscribed
      const json = { name: "user.joined", data: { name: "Ada" }, key: "ada", id: "u1" }
      const first = yield* admin("POST", "/api/v1/publish", { json })
      expect(first).toMatchObject({ status: 201, json: { outcome: "published", jobs: 1 } })
      const { id } = JSON.parse(first.text)
      expect((yield* admin("POST", "/api/v1/publish", { json })).json).toEqual({ id, outcome: "repeated", jobs: 0 })
      const shown = { id, name: "user.joined", key: "ada", ownId: "u1", data: { name: "Ada" } }
      expect((yield* admin("GET", "/api/v1/published?name=user.joined")).json).toMatchObject({
        events: [shown],
        next: null
      })
      const replayed = yield* admin("POST", `/api/v1/published/${id}/replay`, { json: { subscriber: "welcome" } })
      expect(replayed.status).toBe(201)
      const { id: job } = JSON.parse(replayed.text)
      expect((yield* admin("GET", `/api/v1/published/${id}`)).json).toMatchObject({
        ...shown,
        jobs: [
          { subscriber: "welcome", state: "pending", replayed: false },
          { subscriber: "welcome", id: job, state: "pending", replayed: true }
        ]
      })
      expect((yield* admin("GET", `/api/v1/audit?target=${id}`)).json).toMatchObject({
        entries: [{ act: "event.replay", after: { subscriber: "welcome", job } }]
      })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("checks the data for a subscriber with a window, and says that the event waits", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const kinds = yield* Kinds
      const events = yield* Events
      const list = JSON.stringify({ type: "array", items: JSON.parse(schema) })
      yield* kinds.register([
        { name: "digest", queue: "mail", version: 2, attempts: 3, onDead: undefined, schema: list }
      ])
      const window = { debounce: 10_000, max: 50, by: [["name"], ["address", "city"]] }
      yield* events.subscribe(["digest"], [{ event: "user.left", kind: "digest", window }])
      const publish = (data: unknown) => admin("POST", "/api/v1/publish", { json: { name: "user.left", data } })
      expect(yield* publish({ name: 1 })).toMatchObject({ status: 400, json: { error: { field: "data.name" } } })
      yield* kinds.register([
        {
          name: "digest",
          queue: "mail",
          version: 2,
          attempts: 3,
          onDead: undefined,
          check: () => ({ field: "payload", reason: "payload[0].name: too short; payload[0].age: missing" })
        }
      ])
      expect(yield* publish({ name: "A" })).toMatchObject({
        status: 400,
        json: {
          error: { field: "data", message: expect.stringContaining(": data.name: too short; data.age: missing.") }
        }
      })
      yield* kinds.register([
        { name: "digest", queue: "mail", version: 2, attempts: 3, onDead: undefined, schema: list }
      ])
      const published = yield* publish({ name: "Ada" })
      expect(published).toMatchObject({ status: 201, json: { outcome: "published", jobs: 0 } })
      const { id } = JSON.parse(published.text)
      expect((yield* admin("GET", `/api/v1/published/${id}`)).json).toMatchObject({
        jobs: [{ subscriber: "digest", state: null, isOpen: true, events: 0 }]
      })
      const { subscriptions } = JSON.parse((yield* admin("GET", "/api/v1/subscriptions")).text)
      expect(subscriptions).toMatchObject([
        { event: "user.left", window: { debounce: "10s", max: 50, by: ["data.name", "data.address.city"] } }
      ])
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("checks the data only for subscribers that the event matches", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const kinds = yield* Kinds
      const events = yield* Events
      const kind = { queue: "mail", version: 1, attempts: 3, onDead: undefined }
      yield* kinds.register([{ ...kind, name: "swiss", schema }])
      const match = { paths: [["country"]], values: ["CH"] }
      yield* events.subscribe(["swiss"], [{ event: "user.moved", kind: "swiss", match }])
      const publish = (data: unknown) => admin("POST", "/api/v1/publish", { json: { name: "user.moved", data } })
      expect(yield* publish({ country: "DE" })).toMatchObject({ status: 201, json: { jobs: 0 } })
      expect(yield* publish({ country: "CH" })).toMatchObject({ status: 400, json: { error: { tag: "InvalidEvent" } } })
      expect(yield* publish({ country: "CH", name: "Ada" })).toMatchObject({ status: 201, json: { jobs: 1 } })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("accepts data for a subscriber whose window was rolled back", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const kinds = yield* Kinds
      const events = yield* Events
      const list = JSON.stringify({ type: "array", items: JSON.parse(schema) })
      const kind = { name: "back", queue: "mail", attempts: 3, onDead: undefined }
      yield* kinds.register([{ ...kind, version: 2, schema: list }])
      yield* kinds.register([{ ...kind, version: 1, schema }])
      yield* events.subscribe(["back"], [{ event: "user.back", kind: "back" }])
      const json = { name: "user.back", data: { name: "Ada" } }
      expect(yield* admin("POST", "/api/v1/publish", { json })).toMatchObject({ status: 201, json: { jobs: 1 } })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("publishes once per Idempotency-Key", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* subscribed
      const headers = { "idempotency-key": "one" }
      const publish = (name: string) =>
        admin("POST", "/api/v1/publish", { json: { name: "user.joined", data: { name } }, headers })
      const first = yield* publish("Ada")
      expect(first).toMatchObject({ status: 201, json: { outcome: "published", jobs: 1 } })
      expect((yield* publish("Ada")).json).toEqual(first.json)
      expect(yield* publish("Bob")).toMatchObject({ status: 422, json: { error: { tag: "IdempotencyKeyReused" } } })
      expect(yield* admin("GET", "/api/v1/published")).toHaveProperty("json.events.length", 1)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("says what is wrong with a request", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* subscribed
      const publish = (json: unknown) => admin("POST", "/api/v1/publish", { json })
      expect(yield* publish({ data: {} })).toMatchObject({ status: 400 })
      expect(yield* publish({ name: "user.joined", data: { name: 1 } })).toMatchObject({
        status: 400,
        json: { error: { tag: "InvalidEvent", message: expect.stringContaining('the subscriber "welcome"') } }
      })
      expect((yield* publish({ name: "unheard", data: 1 })).json).toMatchObject({ outcome: "published", jobs: 0 })
      expect(yield* admin("GET", `/api/v1/published/${unknown}`)).toMatchObject({
        status: 404,
        json: { error: { tag: "EventNotFound" } }
      })
      const replay = { json: { subscriber: "welcome" } }
      expect(yield* admin("POST", `/api/v1/published/${unknown}/replay`, replay)).toMatchObject({ status: 404 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("removes a subscriber", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* subscribed
      const path = "/api/v1/subscriptions"
      const subscription = { event: "user.joined", subscriber: "welcome", fillFromAt: null }
      expect((yield* admin("GET", path)).json).toMatchObject({ subscriptions: [subscription] })
      expect(yield* admin("DELETE", `${path}/user.joined/welcome`)).toMatchObject({ status: 204 })
      expect((yield* admin("GET", path)).json).toEqual({ subscriptions: [] })
      expect(yield* admin("DELETE", `${path}/user.joined/welcome`)).toMatchObject({ status: 404 })
    }).pipe(Effect.provide(layer()))
  )
})

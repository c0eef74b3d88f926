import { describe, expect, it } from "@effect/vitest"
import { Clock, Duration, Effect, Schedule, TestClock } from "effect"
import { Audit } from "../../src/access/Audit.js"
import * as Snoozes from "../../src/http/admin/Snoozes.js"
import * as AccessMemory from "../support/AccessMemory.js"
import { backends, TestServer } from "./TestServer.js"

const snoozes = Effect.flatMap(TestServer, ({ viewer }) =>
  Effect.map(viewer("GET", "/api/v1/snoozes"), ({ text }): ReadonlyArray<unknown> => JSON.parse(text).snoozes)
)

const given = { incident: "unserved", text: "3 queues have no worker", jobs: 40, for: "1h", reason: "deploy at nine" }

describe.each(backends)("on %s, POST /api/v1/snoozes", (_, layer) => {
  it.scopedLive("hides an incident until it is shown again, both in the audit log", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const made = yield* admin("POST", "/api/v1/snoozes", { json: given })
      expect(made).toMatchObject({ status: 201, json: { incident: "unserved", who: "api:admin", jobs: 40 } })
      expect(yield* snoozes).toMatchObject([{ incident: "unserved", reason: "deploy at nine" }])
      const { actions } = JSON.parse((yield* admin("GET", "/api/v1/actions")).text)
      expect(actions).toMatchObject([
        { text: "snoozed: 3 queues have no worker", reason: "deploy at nine", undo: { request: { method: "DELETE" } } }
      ])
      const id: string = JSON.parse(made.text).id
      expect((yield* admin("DELETE", `/api/v1/snoozes/${id}`)).status).toBe(200)
      expect(yield* snoozes).toEqual([])
      expect(yield* admin("DELETE", `/api/v1/snoozes/${id}`)).toMatchObject({ status: 404 })
      const { entries } = JSON.parse((yield* admin("GET", "/api/v1/audit?act=incident&target=unserved")).text)
      expect(entries).toMatchObject([{ act: "incident.wake" }, { act: "incident.snooze", reason: "deploy at nine" }])
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("can be undone only while it lasts", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* admin("POST", "/api/v1/snoozes", { json: { ...given, for: "1s" } })
      const undo = Effect.map(admin("GET", "/api/v1/actions"), ({ text }): unknown => JSON.parse(text).actions[0].undo)
      yield* Effect.repeat(undo, { until: (given) => given === null, schedule: Schedule.spaced("100 millis") })
      expect(yield* snoozes).toEqual([])
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("requires a reason and a length up to seven days", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const refused = (change: object) =>
        Effect.map(admin("POST", "/api/v1/snoozes", { json: { ...given, ...change } }), ({ status, text }) => [
          status,
          JSON.parse(text).error.message
        ])
      expect(yield* refused({ reason: " " })).toEqual([400, "reason must be text of 1 to 1000 characters."])
      expect(yield* refused({ for: "8d" })).toEqual([
        400,
        "for must be a duration from 1s to 7d, such as 1h, or milliseconds."
      ])
      expect(yield* snoozes).toEqual([])
    }).pipe(Effect.provide(layer()))
  )
})

describe("the current snoozes", () => {
  it.effect("are read from a week of the audit log once, and from its last hour after that", () =>
    Effect.gen(function* () {
      const audit = yield* Audit
      const reads: Array<number> = []
      const current = Snoozes.make({
        ...audit,
        list: (filter, page) =>
          Effect.zipRight(
            Effect.map(Clock.currentTimeMillis, (now) => reads.push(now - (filter.since ?? 0))),
            audit.list(filter, page)
          )
      })
      const act = (name: string, incident: string, after?: object) =>
        audit.record({ who: "ann", act: name, target: incident, reason: "later", after })
      const day = Duration.toMillis("1 day")
      yield* TestClock.adjust("30 days")
      const snoozed = (until: number) => ({ text: "late", until: 30 * day + until, jobs: 1 })
      yield* act(Snoozes.acts.snooze, "first", snoozed(7 * day))
      yield* TestClock.adjust("1 second")
      yield* act(Snoozes.acts.snooze, "second", snoozed(day))
      yield* TestClock.adjust("1 second")
      expect((yield* current).map(({ incident }) => incident)).toEqual(["second", "first"])
      yield* TestClock.adjust("2 hours")
      yield* act(Snoozes.acts.wake, "second")
      yield* act(Snoozes.acts.snooze, "third", snoozed(day))
      expect((yield* current).map(({ incident }) => incident)).toEqual(["third", "first"])
      yield* TestClock.adjust("8 days")
      expect(yield* current).toEqual([])
      expect(reads.map(Duration.millis)).toEqual([Duration.days(7), Duration.hours(3), Duration.days(7)])
    }).pipe(Effect.provide(AccessMemory.layer))
  )
})

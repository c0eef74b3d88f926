import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import type { SeriesPoint } from "../../src/history/MinuteBuckets.js"
import * as Changes from "../../src/http/admin/Changes.js"
import type { DeadGroup } from "../../src/queue/search/JobOverview.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import { backends, TestServer } from "./TestServer.js"

const minute = 60_000

const pointsOf = (...failures: ReadonlyArray<number>) =>
  failures.map((dead, place) => ({ at: place * minute, dead, retried: 0 }) as SeriesPoint)

const group = (more: Partial<DeadGroup>): DeadGroup => ({
  kind: "mail",
  reason: "exhausted",
  shape: "no route to #",
  count: 1,
  firstAt: 0,
  lastAt: 0,
  recent: [],
  sample: { id: "0198c0de-0000-7000-8000-000000000001" as DeadGroup["sample"]["id"], error: undefined },
  ...more
})

describe("a rise of failures", () => {
  it("begins where many more attempts fail than before, once, however long it lasts", () => {
    expect(Changes.risesOf(pointsOf(0, 1, 0, 12, 40, 40), minute)).toMatchObject([{ at: 3 * minute, to: 12 }])
    expect(Changes.risesOf(pointsOf(20, 22, 19, 25), minute)).toEqual([])
    expect(Changes.risesOf(pointsOf(0, 0, 4, 0), minute)).toEqual([])
    expect(Changes.risesOf(pointsOf(0, 9, 0, 0, 0, 0, 0, 9), minute).map(({ at }) => at / minute)).toEqual([1, 7])
  })

  it("is explained by what preceded it, the closest first, and by the error that most deaths have", () => {
    const [rise] = Changes.risesOf(pointsOf(0, 0, 0, 25), minute)
    if (rise === undefined) throw new Error("there is no rise")
    const began = 3 * minute + 20_000
    const explained = Changes.explain(rise, minute, {
      changes: [
        { at: began - 40_000, what: "action", text: "queue billing: 10 to 50 workers", who: "ui:admin" },
        { at: began - 2 * minute, what: "deploy", text: "version 1.8 was deployed", who: null },
        { at: began - 40 * minute, what: "start", text: "process old started", who: null },
        { at: began, what: "error", text: "new error: mail: no route to #", who: null },
        { at: began + 5_000, what: "start", text: "process late started", who: null }
      ],
      groups: [
        group({ count: 24, firstAt: began, lastAt: began + 9_000 }),
        group({ shape: "timeout", count: 1, firstAt: 0, lastAt: began })
      ],
      deaths: () => [{ version: "1.8" }, { version: "1.8" }]
    })
    expect(explained).toEqual({
      at: began,
      text: "failures rose from 0 to 25 per minute",
      preceded: [
        "40 s before, queue billing: 10 to 50 workers (by ui:admin, see the audit log)",
        "2 min before, version 1.8 was deployed",
        "96% of dead jobs have the same new error, all in processes of version 1.8: mail: no route to #"
      ]
    })
  })
})

describe.each(backends)("on %s, GET /api/v1/changes", (_, layer) => {
  it.scopedLive("lists actions that change what jobs do, within its range", () =>
    Effect.gen(function* () {
      const { admin, viewer } = yield* TestServer
      yield* Effect.flatMap(Queues, ({ declare }) => declare(["mail"]))
      yield* admin("PATCH", "/api/v1/queues/mail", { json: { maxWorkers: 50 } })
      yield* admin("POST", "/api/v1/views", { json: { name: "mine", page: "dead", filter: { kind: "greet" } } })
      const actions = (query: string) =>
        Effect.map(viewer("GET", `/api/v1/changes${query}`), ({ text }) =>
          JSON.parse(text).changes.filter(({ what }: { what: string }) => what === "action")
        )
      expect(yield* actions("")).toMatchObject([{ text: "queue mail: 10 to 50 workers", who: "api:admin" }])
      expect(yield* actions("?since=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z")).toEqual([])
      const refused = yield* viewer("GET", "/api/v1/changes?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z")
      expect(refused).toMatchObject({ status: 400, json: { error: { message: "since must be before until." } } })
    }).pipe(Effect.provide(layer()))
  )
})

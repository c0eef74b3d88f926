import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted, Schedule } from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Nightshift from "../support/Nightshift.js"
import { scale } from "../support/Scale.js"
import * as TestDatabase from "../support/TestDatabase.js"

const fixture = (name: string) => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url))
const events = scale("EVENTS", 3_000)
const kills = 5

const quick = {
  NIGHTSHIFT_LEASE: "3s",
  NIGHTSHIFT_POD_HEARTBEAT: "500ms",
  QUEUE_HEARTBEAT: "500ms",
  QUEUE_REAPER_INTERVAL: "500ms"
}

describe(`${events} events to five subscribers`, () => {
  it.scopedLive(
    "make exactly one job each, and are in one job of a subscriber with debounce, although publishers and workers are killed",
    () =>
      Effect.gen(function* () {
        const url = Redacted.value(yield* DatabaseUrl)
        const { sql } = yield* Database
        const cwd = yield* Nightshift.folder
        const env = { DATABASE_URL: url, ...quick }
        const startWorker = Effect.tap(
          Nightshift.start(["serve", "--app", fixture("events-app.mjs"), "--port", "0"], { cwd, env }),
          (running) => running.said(/is up/)
        )
        const startPublisher = Nightshift.start([], {
          cwd,
          program: fixture("events-publisher.mjs"),
          env: { ...env, EVENTS: String(events) }
        })
        // The oldest worker leads, and so it closes windows.
        let oldest = yield* startWorker
        for (let kill = 1; kill <= kills; kill += 1) {
          const next = yield* startWorker
          const publisher = yield* startPublisher
          // Each publisher gets further than the one before, and is killed while the next events are under way.
          yield* publisher.said(new RegExp(`published ${Math.ceil((events * kill) / (kills + 1) / 100) * 100}\\n`))
          yield* publisher.signal("SIGKILL")
          yield* oldest.signal("SIGKILL")
          const ended = [yield* publisher.finished, yield* oldest.finished]
          oldest = next
          expect(ended.map(({ signal }) => signal)).toEqual(["SIGKILL", "SIGKILL"])
        }
        const last = yield* startPublisher
        expect((yield* last.finished).code).toBe(0)
        const left = sql<{ count: number }>`select (select count(*) from nightshift.job where finished_at is null)::int
          + (select count(*) from nightshift.windowed_event where job is null)::int as count`
        yield* Effect.repeat(left, {
          until: ([row]) => row?.count === 0,
          schedule: Schedule.spaced("500 millis")
        })
        const [counts] = yield* sql`select count(*)::int as jobs, count(distinct (kind, payload->>'n'))::int as pairs,
          count(distinct kind)::int as subscribers, count(*) filter (where status = 'done')::int as done from nightshift.job where kind <> 'digest'`
        expect(counts).toEqual({ jobs: 5 * events, pairs: 5 * events, subscribers: 5, done: 5 * events })
        const [joined] = yield* sql`select count(*)::int as events, count(distinct e->>'n')::int as numbers,
          bool_and(jsonb_array_length(payload) <= 30) as small, bool_and(status = 'done') as done
          from nightshift.job, jsonb_array_elements(payload) as e where kind = 'digest'`
        expect(joined).toEqual({ events, numbers: events, small: true, done: true })
        const [stored] =
          yield* sql`select count(*)::int as events, count(distinct own_id)::int as ids from nightshift.event`
        expect(stored).toEqual({ events, ids: events })
      }).pipe(Effect.provide(TestDatabase.layer)),
    Math.max(240_000, events * 80)
  )
})

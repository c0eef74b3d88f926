import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted, Schedule } from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Nightshift from "../support/Nightshift.js"
import * as PrometheusText from "../support/PrometheusText.js"
import * as TestDatabase from "../support/TestDatabase.js"

const token = "sesame"

const pod = (cwd: string) =>
  Effect.gen(function* () {
    const url = yield* DatabaseUrl
    const running = yield* Nightshift.start(["serve", "--port", "0"], {
      cwd,
      env: { DATABASE_URL: Redacted.value(url), NIGHTSHIFT_ADMIN_TOKEN: token, LOG_LEVEL: "warning" }
    })
    const [, at = ""] = yield* running.said(/"url":"(http:[^"]+)"/)
    const ask = (path: string, body?: unknown) =>
      Effect.promise(async () => {
        const response = await fetch(`${at}${path}`, {
          method: body === undefined ? "GET" : "POST",
          headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
          ...(body === undefined ? {} : { body: JSON.stringify(body) })
        })
        expect(response.ok, `${path}: ${response.status}`).toBe(true)
        return response.text()
      })
    return { ...running, ask }
  })

type Pod = Effect.Effect.Success<ReturnType<typeof pod>>

const enqueue = ({ ask }: Pod, count: number) =>
  ask("/api/v1/jobs", {
    jobs: Array.from({ length: count }, (_, n) => ({
      kind: "noop_echo",
      payload: n % 10 === 0 ? { fail: "no luck" } : {},
      attempts: 1
    }))
  })

const allOver = Effect.gen(function* () {
  const { sql } = yield* Database
  const rows = yield* sql`select 1 from nightshift.job where status in ('pending', 'running') limit 1`
  return rows.length === 0
}).pipe(Effect.repeat({ until: (over) => over, schedule: Schedule.spaced("50 millis") }))

interface Sums {
  readonly enqueued: number
  readonly started: number
  readonly completed: number
  readonly dead: number
}

/** Sums of the last hour's chart. */
const charted = ({ ask }: Pod, bucket = "1m") =>
  Effect.map(ask(`/api/v1/metrics/series?queue=default&bucket=${bucket}`), (text): Sums => {
    const points: ReadonlyArray<Sums> = JSON.parse(text).points
    const sum = (of: (point: Sums) => number) => points.reduce((total, point) => total + of(point), 0)
    return {
      enqueued: sum(({ enqueued }) => enqueued),
      started: sum(({ started }) => started),
      completed: sum(({ completed }) => completed),
      dead: sum(({ dead }) => dead)
    }
  })

/** The enqueuing and the running pod flush their counts independently. */
const untilAll = (reader: Pod, count: number) =>
  Effect.zipRight(
    Effect.repeat(charted(reader), {
      until: ({ completed, dead, enqueued }) => Math.min(completed + dead, enqueued) >= count,
      schedule: Schedule.spaced("100 millis")
    }),
    charted(reader)
  )

const page = ({ ask }: Pod) => Effect.map(ask("/metrics"), PrometheusText.parse)

describe("pods that count", () => {
  it.scopedLive(
    "match the actual outcomes, lose at most one flush on kill -9, and show them in Prometheus and in charts",
    () =>
      Effect.gen(function* () {
        const cwd = yield* Nightshift.folder
        const { sql } = yield* Database
        const [first, second] = yield* Effect.all([pod(cwd), pod(cwd)], { concurrency: "unbounded" })
        yield* enqueue(first, 150)
        yield* enqueue(second, 50)
        yield* allOver
        const happened = { enqueued: 200, started: 200, completed: 180, dead: 20 }
        expect(yield* untilAll(first, 200)).toEqual(happened)
        expect(yield* charted(second, "1h")).toEqual(happened)

        const pages = [yield* page(first), yield* page(second)]
        const of = (name: string, labels: Record<string, string> = {}) =>
          pages.reduce((sum, families) => sum + PrometheusText.total(families, `nightshift_${name}`, labels), 0)
        const noop = { queue: "default", kind: "noop_echo" }
        expect(of("jobs_enqueued_total", noop)).toBe(200)
        expect(of("jobs_started_total", noop)).toBe(200)
        expect(of("jobs_completed_total", noop)).toBe(180)
        expect(of("jobs_dead_total", { ...noop, reason: "exhausted" })).toBe(20)
        expect(of("job_duration_seconds_count", noop)).toBe(200)
        for (const families of pages) {
          const seen = (name: string, labels: Record<string, string>) =>
            PrometheusText.total(families, `nightshift_${name}`, labels)
          expect(seen("jobs", { queue: "default", state: "done" })).toBe(180)
          expect(seen("jobs", { queue: "default", state: "dead" })).toBe(20)
          expect(seen("jobs_counted_age_seconds", {})).toBeLessThan(15)
          expect(seen("database_op_seconds_count", { op: "claim_line" })).toBeGreaterThan(0)
          expect(seen("database_size_bytes", {})).toBeGreaterThan(1e6)
          const own = [...families.values()].filter(({ name }) => name.startsWith("nightshift_"))
          expect(own.filter(({ help }) => help === undefined)).toEqual([])
        }

        // Samples and counts are stored under the pod's cluster id.
        const known = JSON.parse(yield* first.ask("/api/v1/pods")).pods.map(({ id }: { id: string }) => id)
        const sampled = JSON.parse(yield* first.ask("/api/v1/metrics/pods")).pods.map(
          (each: { pod: string }) => each.pod
        )
        expect(sampled.toSorted()).toEqual(known.toSorted())
        const counting = yield* sql<{ pod: string }>`select distinct pod_id::text as pod from nightshift.job_bucket`
        expect(counting.map((row) => row.pod).toSorted()).toEqual(known.toSorted())

        // A pod that is killed right after its jobs may lose its last counts, and nothing else.
        yield* enqueue(first, 40)
        yield* allOver
        yield* Effect.all([first.signal("SIGKILL"), second.signal("SIGKILL")])
        yield* Effect.all([first.finished, second.finished])
        const third = yield* pod(cwd)
        const kept = yield* charted(third)
        expect(kept.completed + kept.dead).toBeGreaterThanOrEqual(200)
        expect(kept.completed + kept.dead).toBeLessThanOrEqual(240)

        // A pod that is asked to stop writes all counts first.
        yield* enqueue(third, 30)
        yield* allOver
        yield* third.signal("SIGTERM")
        expect(yield* third.finished).toMatchObject({ code: 0 })
        const sums = yield* sql<Sums>`select sum(completed)::int as completed, sum(dead)::int as dead
          from nightshift.job_bucket where minutes = 1`
        expect((sums[0]?.completed ?? 0) + (sums[0]?.dead ?? 0)).toBe(kept.completed + kept.dead + 30)
      }).pipe(Effect.provide(TestDatabase.layer)),
    120_000
  )
})

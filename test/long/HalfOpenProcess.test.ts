import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted, Schedule } from "effect"
import pg from "pg"
import * as LosingProxy from "../support/LosingProxy.js"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const serve = (url: Redacted.Redacted) =>
  Effect.gen(function* () {
    const cwd = yield* Nightshift.folder
    const running = yield* Nightshift.start(["serve", "--port", "0"], {
      cwd,
      env: {
        DATABASE_URL: Redacted.value(url),
        NIGHTSHIFT_ADMIN_TOKEN: "sesame",
        DATABASE_STATEMENT_TIMEOUT: "2s",
        DATABASE_CONNECT_TIMEOUT: "2s",
        SHUTDOWN_GRACE: "1s",
        LOG_LEVEL: "warning"
      }
    })
    const [, base = ""] = yield* running.said(/"url":"(http:[^"]+)"/)
    const readyz = Effect.promise(async () => {
      const response = await fetch(`${base}/readyz`)
      return { status: response.status, body: await response.text() }
    })
    const untilStatus = (status: number) =>
      Effect.zipRight(
        Effect.repeat(readyz, { until: (answer) => answer.status === status, schedule: Schedule.spaced("200 millis") }),
        readyz
      )
    return { running, base, untilStatus }
  })

const enqueue = (base: string) =>
  Effect.promise(() =>
    fetch(`${base}/api/v1/jobs`, {
      method: "POST",
      headers: { authorization: "Bearer sesame", "content-type": "application/json" },
      body: JSON.stringify({ jobs: [{ kind: "noop_echo", payload: {} }] })
    })
  )

describe("a process whose connections a middlebox dropped silently", () => {
  it.scopedLive(
    "recovers by itself when new ones work",
    () =>
      Effect.gen(function* () {
        const direct = yield* TestDatabase.migrated
        const proxy = yield* LosingProxy.stalling(direct)
        const { base, untilStatus } = yield* serve(proxy.url)
        yield* untilStatus(200)
        yield* proxy.stall({ replies: true })
        yield* Effect.repeat(enqueue(base), {
          until: (response) => response.status < 300,
          schedule: Schedule.spaced("200 millis")
        })
        const client = yield* Effect.acquireRelease(
          Effect.promise(async () => {
            const opened = new pg.Client({ connectionString: Redacted.value(direct) })
            await opened.connect()
            return opened
          }),
          (opened) => Effect.promise(() => opened.end())
        )
        const left = Effect.promise(() =>
          client.query("select from nightshift.job where status in ('pending', 'running')")
        )
        yield* Effect.repeat(left, {
          until: ({ rowCount }) => rowCount === 0,
          schedule: Schedule.spaced("200 millis")
        })
        yield* untilStatus(200)
      }),
    120_000
  )

  it.scopedLive(
    "reports that it is not ready while none work, and stops on request",
    () =>
      Effect.gen(function* () {
        const proxy = yield* LosingProxy.stalling(yield* TestDatabase.migrated)
        const { running, untilStatus } = yield* serve(proxy.url)
        yield* untilStatus(200)
        yield* proxy.stall({ new: true })
        expect((yield* untilStatus(503)).body).toMatch(/is not responding|does not answer/)
        yield* running.signal("SIGTERM")
        expect(yield* running.finished).toMatchObject({ code: 0 })
      }),
    120_000
  )
})

import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Schedule } from "effect"
import { z } from "zod"
import { connect, job, worker } from "../../src/client/index.js"
import * as EmbeddedPostgres from "../../src/database/embedded/EmbeddedPostgres.js"
import * as Nightshift from "../support/Nightshift.js"
import * as ProcessFamily from "../support/ProcessFamily.js"

const freeze = (pid: number) =>
  Effect.acquireRelease(
    Effect.map(ProcessFamily.below(pid), (backends) => {
      const processes = [pid, ...backends]
      for (const one of processes) process.kill(one, "SIGSTOP")
      return processes
    }),
    (processes) =>
      Effect.sync(() => {
        // Resume the postmaster last: until it runs it reaps no backend, so pids are not reused.
        for (const one of processes.reverse()) process.kill(one, "SIGCONT")
      })
  )

// A statement may take a minute, so a shutdown that waits for even one of them misses its deadline.
const settings = { DATABASE_STATEMENT_TIMEOUT: "60s", DATABASE_CONNECT_TIMEOUT: "60s", SHUTDOWN_GRACE: "1s" }

describe("a process whose PostgreSQL is frozen", () => {
  it.scopedLive(
    "exits soon after its grace period, and logs which jobs were not written and what happens to them",
    () =>
      Effect.gen(function* () {
        const { pid, url } = yield* EmbeddedPostgres.EmbeddedPostgres
        const cwd = yield* Nightshift.folder
        const running = yield* Nightshift.start(["serve", "--port", "0"], {
          cwd,
          env: { DATABASE_URL: Redacted.value(url), NIGHTSHIFT_ADMIN_TOKEN: "sesame", ...settings }
        })
        const [, base = ""] = yield* running.said(/"url":"(http:[^"]+)"/)
        const api = (path: string, body?: unknown) =>
          Effect.promise(async () => {
            const headers = { authorization: "Bearer sesame", "content-type": "application/json" }
            const response = await fetch(
              `${base}/api/v1/${path}`,
              body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) }
            )
            return (await response.json()) as { jobs: ReadonlyArray<{ id: string }> }
          })
        const jobs = Array.from({ length: 3 }, () => ({ kind: "noop_echo", payload: { sleep_ms: 300_000 } }))
        const enqueued = yield* api("jobs", { jobs })
        yield* Effect.repeat(api("jobs?state=running"), {
          until: (answer) => answer.jobs.length === 3,
          schedule: Schedule.spaced("50 millis")
        })
        yield* freeze(pid)
        yield* running.signal("SIGTERM")
        const ended = yield* running.finished
        expect(ended).toMatchObject({ code: 0 })
        expect(ended.stderr).toMatch(/the outcome of 3 jobs was not written.*after QUEUE_STALE_AFTER/)
        for (const { id } of enqueued.jobs) expect(ended.stderr).toContain(id)
      }).pipe(Effect.scoped, Effect.provide(Layer.orDie(EmbeddedPostgres.layerThrowaway))),
    50_000
  )

  it.scopedLive(
    "stops a worker of nightshift/client, whose shift continues when the server answers again",
    () =>
      Effect.gen(function* () {
        const { pid, url } = yield* EmbeddedPostgres.EmbeddedPostgres
        const shift = yield* Effect.promise(() => connect(Redacted.value(url), { log: false }))
        const slow = job("slow", { payload: z.object({}), queue: "slow" })
        const running = yield* Effect.promise(async () => {
          const handler = slow.handle((_, { signal }) => new Promise((done) => signal.addEventListener("abort", done)))
          const started = await worker(shift, { handlers: [handler], grace: "1s" })
          await shift.enqueue(slow, {})
          return started
        })
        // Without a limit for the whole shutdown, each statement would wait for its own.
        yield* Effect.scoped(
          Effect.zipRight(
            freeze(pid),
            Effect.promise(() => running.stop())
          )
        )
        yield* Effect.retry(
          Effect.tryPromise(() => shift.enqueue(slow, {})),
          Schedule.spaced("100 millis")
        )
        yield* Effect.promise(() => shift.close())
      }).pipe(Effect.scoped, Effect.provide(Layer.orDie(EmbeddedPostgres.layerThrowaway))),
    30_000
  )
})

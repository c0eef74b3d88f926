import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const quick = { QUEUE_STALE_AFTER: "3s", QUEUE_REAPER_INTERVAL: "500ms", QUEUE_HEARTBEAT: "500ms", QUEUE_POLL: "500ms" }

const deployment = Effect.gen(function* () {
  const cwd = yield* Nightshift.folder
  const database = Redacted.value(yield* TestDatabase.migrated)
  const env = { DATABASE_URL: database, NIGHTSHIFT_ADMIN_TOKEN: "sesame", NIGHTSHIFT_VIEWER_TOKEN: "look", ...quick }
  const serve = Effect.gen(function* () {
    const running = yield* Nightshift.start(["serve", "--port", "0"], { cwd, env })
    const [, url = ""] = yield* running.said(/"url":"(http:[^"]+)"/)
    return { pid: running.pid, url }
  })
  const [one, two] = yield* Effect.all([serve, serve], { concurrency: 2 })
  const chaos = (args: ReadonlyArray<string>, more: Readonly<Record<string, string>> = {}) =>
    Nightshift.run(["chaos", "--url", one.url, "--each", "1s", "--json", ...args], { cwd, env: { ...env, ...more } })
  return { chaos, victim: two }
})

describe("nightshift chaos on a deployment", () => {
  it.scopedLive(
    "injects every fault that it is allowed to, and finds no job lost",
    () =>
      Effect.gen(function* () {
        const { chaos, victim } = yield* deployment
        const faults = ["pause", "cancel", "connections", "locks", "transaction", "sigstop", "sigkill"]
        const { code, stderr, stdout } = yield* chaos(["--allow", faults.join(","), "--pid", `${victim.pid}`])
        expect(code, stderr).toBe(0)
        const report = JSON.parse(stdout)
        expect(report).toMatchObject({ ok: true, violations: [] })
        expect(report.faults.map(({ fault }: { fault: string }) => fault)).toEqual(faults)
        expect(report.acknowledged).toBeGreaterThan(20)
      }),
    180_000
  )

  it.scopedLive(
    "refuses a token that is not an administrator's, and a service that is in use",
    () =>
      Effect.gen(function* () {
        const { chaos, victim } = yield* deployment
        const viewer = yield* chaos(["--allow", "pause"], { NIGHTSHIFT_ADMIN_TOKEN: "look" })
        expect(viewer).toMatchObject({ code: 1, stderr: expect.stringMatching(/a token with the role viewer/) })
        yield* Effect.promise(() =>
          fetch(`${victim.url}/api/v1/jobs`, {
            method: "POST",
            headers: { authorization: "Bearer sesame", "content-type": "application/json" },
            body: JSON.stringify({ kind: "noop_echo", payload: { sleep_ms: 60_000 } })
          })
        )
        const busy = yield* chaos(["--allow", "pause"])
        expect(busy).toMatchObject({ code: 1, stderr: expect.stringMatching(/1 unfinished jobs.*Nothing was done/) })
      }),
    120_000
  )
})

import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import pg from "pg"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const query = (connectionString: string, text: string) =>
  Effect.promise(async () => {
    const client = new pg.Client({ connectionString })
    await client.connect()
    try {
      return (await client.query(text)).rows
    } finally {
      await client.end()
    }
  })

describe("a service that serves no queue", () => {
  it.scopedLive("has the API and Mission Control, claims no job, and `why` and `doctor` say what is missing", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const url = Redacted.value(yield* TestDatabase.migrated)
      const env = { DATABASE_URL: url, NIGHTSHIFT_ADMIN_TOKEN: "sesame", LOG_FORMAT: "json" }
      const service = yield* Nightshift.start(["serve", "--port", "0", "--queues", "none"], { cwd, env })
      const http = (yield* service.said(/"url":"(http:[^"]+)"/))[1] ?? ""
      expect(service.printed()).toContain('"queues":[]')

      const get = (path: string) =>
        Effect.promise(async () => {
          const response = await fetch(http + path, { headers: { authorization: "Bearer sesame" } })
          return { status: response.status, text: await response.text() }
        })
      expect(yield* get("/readyz")).toMatchObject({ status: 200 })
      expect(yield* get("/ui/")).toMatchObject({ status: 200 })
      const pods = JSON.parse((yield* get("/api/v1/pods")).text)
      expect(pods).toMatchObject({ pods: [{ queues: [], slots: [] }] })

      const call = (...args: ReadonlyArray<string>) => Nightshift.call(args, { cwd, env })
      const { id } = JSON.parse((yield* call("enqueue", "noop_echo", "--json")).stdout)
      // Two heartbeats later the pod has had every occasion to claim the job.
      const beat = "select heartbeat_at, (select count(*)::int from nightshift.pod) as pods from nightshift.pod"
      const [first] = yield* query(url, beat)
      expect(first.pods).toBe(1)
      for (let changes = 0, last = first; changes < 2; ) {
        const [now] = yield* query(url, beat)
        if (now.heartbeat_at.getTime() !== last.heartbeat_at.getTime()) changes += 1
        last = now
      }
      expect(yield* query(url, "select status, attempt, last_error from nightshift.job")).toEqual([
        { status: "pending", attempt: 0, last_error: null }
      ])

      const why = (yield* call("jobs", "why", id)).stdout
      expect(why).toContain('no_pod\nNo live process serves queue "default"; 1 live process serves no queue')
      expect(why).toContain("Start your worker, or run `nightshift serve --app <module> --queues default`.")
      const doctor = (yield* call("doctor")).stdout
      expect(doctor).toMatch(
        /1 process is live \(1 serves no queue\), but none serves these queues with due jobs: default/
      )
      expect(doctor).toContain("Start your worker, or run `nightshift serve --app <module> --queues default`.")
    })
  )

  it.scopedLive("is what `why` recommends for a pod that returned a job for which it has no handler", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const url = Redacted.value(yield* TestDatabase.migrated)
      const call = (...args: ReadonlyArray<string>) => Nightshift.call(args, { cwd, env: { DATABASE_URL: url } })
      const { id } = JSON.parse((yield* call("enqueue", "greet", "--force", "--delay", "1h", "--json")).stdout)
      yield* query(url, `update nightshift.job set last_error = 'this process has no handler for the kind "greet"'`)
      for (const [label, kind] of [
        ["dev", "noop_echo"],
        ["mine", "greet"]
      ]) {
        yield* query(
          url,
          `insert into nightshift.pod (id, heartbeat_at, slots, draining, label, version, queues, kinds, host, os_pid,
            node_version, started_at)
          values (gen_random_uuid(), now(), '[]', false, '${label}', '1', '{default}', '{${kind}}', 'h', 1, 'v', now())`
        )
      }
      const { stdout } = yield* call("jobs", "why", id)
      expect(stdout).toMatch(/^unknown_kind, until /)
      expect(stdout).toContain(
        'Process dev serves queue "default" without a handler for the kind "greet" and returned it.'
      )
      expect(stdout).toContain("--queues none")
    })
  )

  it.scopedLive("refuses `none` beside other names", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const env = { DATABASE_URL: Redacted.value(yield* TestDatabase.migrated) }
      const { code, stderr } = yield* Nightshift.call(["serve", "--port", "0", "--queues", "none,mail"], { cwd, env })
      expect(code).toBe(2)
      expect(stderr).toContain('NIGHTSHIFT_QUEUES: expected `none` alone, or names of queues, got "none,mail"')
    })
  )
})

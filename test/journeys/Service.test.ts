import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Nightshift from "../support/Nightshift.js"
import { below, gone } from "../support/ProcessFamily.js"
import * as PrometheusText from "../support/PrometheusText.js"
import { isLong } from "../support/Scale.js"
import * as TestDatabase from "../support/TestDatabase.js"

const get = (url: string, headers: Record<string, string> = {}) =>
  Effect.promise(async () => {
    // A connection that is kept open may be closed by the service at the moment of the next request.
    const response = await fetch(url, { headers: { connection: "close", ...headers } })
    return { status: response.status, text: await response.text() }
  })

/** Starts the service and returns it with its url. */
const serve = (
  cwd: string,
  options: { args?: ReadonlyArray<string>; env?: Record<string, string>; uid?: number } = {}
) =>
  Effect.gen(function* () {
    const running = yield* Nightshift.start(["serve", "--port", "0", ...(options.args ?? [])], {
      cwd,
      env: options.env ?? {},
      ...(options.uid === undefined ? {} : { uid: options.uid })
    })
    const match = yield* running.said(/url"?:? *"?(http:[^"\s]+)/)
    return { ...running, url: match[1] ?? "" }
  })

const freePort = Effect.promise(
  () =>
    new Promise<number>((resolve) => {
      const server = createServer().listen(0, "127.0.0.1", () => {
        const { port } = server.address() as AddressInfo
        server.close(() => resolve(port))
      })
    })
)

const hostile = 'a"} 1\nforged{x="\\'

/**
 * Runs jobs that succeed and die, one with a kind name that could forge a line, and refused requests; returns the
 * metrics page.
 */
const busyPage = (url: string, completed: number) =>
  Effect.promise(async () => {
    const headers = { authorization: "Bearer sesame", "content-type": "application/json" }
    const jobs = (payload: object, count: number) =>
      Array.from({ length: count }, () => ({ kind: "noop_echo", attempts: 1, payload }))
    const all = [...jobs({}, 20), ...jobs({ fail: "told to" }, 3), { kind: hostile, payload: {} }]
    const body = JSON.stringify({ force: true, jobs: all })
    expect((await fetch(`${url}/api/v1/jobs`, { method: "POST", headers, body })).status).toBe(201)
    for (const path of ["/nowhere", "/api/v1/jobs?limit=0", "/uploads/acme", "/hooks/telegram/none"]) {
      await fetch(url + path, { headers })
    }
    for (;;) {
      const response = await fetch(`${url}/metrics`)
      expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8")
      const page = PrometheusText.parse(await response.text())
      if (PrometheusText.total(page, "nightshift_jobs_completed_total", { kind: "noop_echo" }) === completed)
        return page
      // The service needs the processor for the jobs.
      await new Promise((resume) => setTimeout(resume, 50))
    }
  })

const inLongRuns = isLong ? it.scopedLive : () => {}

describe("the service on an embedded PostgreSQL", () => {
  it.scopedLive("answers, stops cleanly on SIGTERM with no server left, and finds its data at the next start", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const first = yield* serve(cwd, { args: ["--embedded"] })
      expect(yield* get(`${first.url}/healthz`)).toMatchObject({ status: 200 })
      expect(yield* get(`${first.url}/readyz`)).toEqual({
        status: 200,
        text: '{"status":"ready","reasons":[],"off":[]}'
      })
      const family = yield* below(first.pid)
      expect(family.length).toBeGreaterThan(2)
      yield* first.signal("SIGTERM")
      yield* first.said(/"msg":"stopped"/)
      expect(yield* first.finished).toMatchObject({ code: 0, signal: null })
      yield* gone(family)
      const second = yield* serve(cwd, { args: ["--embedded"] })
      const migrate = yield* Nightshift.call(["migrate"], { cwd })
      expect(migrate).toMatchObject({ code: 0, stdout: "The schema is up to date.\n" })
      yield* second.signal("SIGINT")
      expect(yield* second.finished).toMatchObject({ code: 0 })
    })
  )

  inLongRuns("refuses a second process on its directory and names the holder", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const holder = yield* serve(cwd, { args: ["--embedded"] })
      const refused = yield* Nightshift.run(["serve", "--embedded", "--port", "0"], { cwd })
      expect(refused.code).toBe(1)
      expect(refused.stderr).toMatch(new RegExp(`^nightshift: .*\\b${holder.pid}\\b.*\n$`))
      expect(yield* get(`${holder.url}/readyz`)).toMatchObject({ status: 200 })
    })
  )

  inLongRuns("leaves no server behind when it is killed with -9, and recovers at the next start", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const doomed = yield* serve(cwd, { args: ["--embedded"] })
      const family = yield* below(doomed.pid)
      expect(family.length).toBeGreaterThan(2)
      yield* doomed.signal("SIGKILL")
      yield* doomed.finished
      yield* gone(family)
      const next = yield* serve(cwd, { args: ["--embedded"] })
      expect(yield* get(`${next.url}/readyz`)).toMatchObject({ status: 200 })
    })
  )

  inLongRuns("exits with a one-sentence error when its server is killed", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const running = yield* serve(cwd, { args: ["--embedded"] })
      const family = yield* below(running.pid)
      const postmaster = Number(readFileSync(join(cwd, ".nightshift/data/postmaster.pid"), "utf8").split("\n")[0])
      process.kill(postmaster, "SIGKILL")
      const finished = yield* running.finished
      expect(finished.code).toBe(1)
      expect(finished.stderr).toMatch(/nightshift: The embedded PostgreSQL .*exited unexpectedly/)
      yield* gone(family)
      const next = yield* serve(cwd, { args: ["--embedded"] })
      expect(yield* get(`${next.url}/readyz`)).toMatchObject({ status: 200 })
    })
  )

  inLongRuns("reports in one line that a directory cannot be used", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      writeFileSync(join(cwd, "taken"), "a file")
      const refused = yield* Nightshift.call(["serve", "--embedded", "--directory", "taken/inside"], { cwd })
      expect(refused.code).not.toBe(0)
      expect(refused.stderr).toMatch(/^nightshift: [^\n]+\n$/)
      expect(refused.stderr).not.toContain("    at ")
    })
  )
})

describe("the service on an external PostgreSQL", () => {
  it.scopedLive(
    "migrates the database, becomes ready, and serves metrics that a strict parser accepts under load",
    () =>
      Effect.gen(function* () {
        const cwd = yield* Nightshift.folder
        const url = yield* TestDatabase.empty
        const running = yield* serve(cwd, {
          env: { DATABASE_URL: Redacted.value(url), NIGHTSHIFT_ADMIN_TOKEN: "sesame" }
        })
        expect(yield* get(`${running.url}/readyz`)).toMatchObject({ status: 200 })
        expect(existsSync(join(cwd, ".nightshift"))).toBe(false)
        const before = yield* busyPage(running.url, 20)
        const after = yield* busyPage(running.url, 40)
        // Counters only increase, and existing series stay.
        expect(
          before.get("nightshift_workflow_executions_suspended")?.samples.map(({ labels }) => labels.state)
        ).toEqual(["sleeping", "waiting", "changed"])
        for (const { name, samples, type } of before.values()) {
          if (type !== "counter") continue
          for (const { labels, value } of samples) {
            expect(PrometheusText.total(after, name, labels), name).toBeGreaterThanOrEqual(value)
          }
        }
        expect(PrometheusText.total(after, "nightshift_jobs_enqueued_total", { kind: hostile })).toBe(2)
        yield* running.signal("SIGTERM")
        expect(yield* running.finished).toMatchObject({ code: 0 })
      })
  )

  inLongRuns("is not ready before its kinds are registered, tries that again, and accepts a job as soon as it is", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const database = yield* TestDatabase.migrated
      const session = yield* TestDatabase.connection.pipe(Effect.provideService(DatabaseUrl, database))
      yield* Effect.promise(() => session.query("begin; lock table nightshift.kind"))
      const port = yield* freePort
      const running = yield* Nightshift.start(["serve", "--port", String(port)], {
        cwd,
        env: {
          DATABASE_URL: Redacted.value(database),
          NIGHTSHIFT_ADMIN_TOKEN: "sesame",
          DATABASE_STATEMENT_TIMEOUT: "500ms"
        }
      })
      const waits = "select from pg_locks where relation = 'nightshift.kind'::regclass and not granted"
      const registering = Effect.promise(() => session.query(waits))
      yield* Effect.repeat(registering, { until: ({ rowCount }) => rowCount === 1 })
      const url = `http://127.0.0.1:${port}`
      // Another task of the start; it ends while the registration waits.
      const report = yield* Effect.repeat(get(`${url}/readyz`), { until: ({ text }) => !text.includes("API routes") })
      expect(report).toEqual({
        status: 503,
        text: '{"status":"not ready","reasons":["starting: kinds, queues, routes and schedules are not declared"],"off":[]}'
      })
      yield* running.said(/did not answer a statement of the startup \(canceling statement[^)]*\), retrying/)
      expect(running.printed()).not.toContain("is up")
      yield* Effect.promise(() => session.query("commit"))
      yield* Effect.repeat(get(`${url}/readyz`), { until: ({ status }) => status === 200 })
      const enqueued = yield* Effect.promise(() =>
        fetch(`${url}/api/v1/jobs`, {
          method: "POST",
          headers: { authorization: "Bearer sesame", "content-type": "application/json" },
          body: '{"kind":"noop_echo","payload":{}}'
        })
      )
      expect(enqueued.status).toBe(201)
    })
  )

  inLongRuns("survives five concurrent first starts on one empty database", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const url = yield* TestDatabase.empty
      const pods = yield* Effect.all(
        Array.from({ length: 5 }, () => serve(cwd, { env: { DATABASE_URL: Redacted.value(url) } })),
        { concurrency: "unbounded" }
      )
      for (const pod of pods) expect(yield* get(`${pod.url}/readyz`)).toMatchObject({ status: 200 })
    })
  )

  inLongRuns("never prints the database's password, not even a wrong one", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const wrong = new URL(Redacted.value(yield* TestDatabase.empty))
      wrong.username = "stranger"
      wrong.password = "hunter2-secret"
      const refused = yield* Nightshift.call(["serve"], { cwd, env: { DATABASE_URL: wrong.href } })
      expect(refused.code).toBe(1)
      expect(refused.stderr).toMatch(/^nightshift: PostgreSQL at \S+ refused the connection: [^\n]+\n$/)
      expect(refused.stdout + refused.stderr).not.toContain("hunter2")
    })
  )

  inLongRuns("exits with one sentence after its retries when the server cannot be reached", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const env = { DATABASE_URL: "postgres://someone:hunter2@127.0.0.1:1/none", DATABASE_BOOT_TIMEOUT: "500ms" }
      const refused = yield* Nightshift.call(["serve"], { cwd, env })
      expect(refused.code).toBe(1)
      expect(refused.stderr).toMatch(/not reachable yet/)
      expect(refused.stderr).toMatch(
        /\nnightshift: Could not reach PostgreSQL at 127.0.0.1:1\/none within 500ms [^\n]+\n$/
      )
      expect(refused.stderr).not.toContain("hunter2")
    })
  )
})

if (isLong) {
  describe("the service without a database", () => {
    it.scopedLive(
      "serves what works without one, reports what is off, and requires the metrics token when one is set",
      () =>
        Effect.gen(function* () {
          const cwd = yield* Nightshift.folder
          const running = yield* serve(cwd, { env: { NIGHTSHIFT_METRICS_TOKEN: "scrape-me" } })
          const { url } = running
          yield* running.said(/queues, workers and uploads are off/)
          expect(yield* get(`${url}/readyz`)).toEqual({
            status: 200,
            text: '{"status":"ready","reasons":[],"off":["queue","worker","uploads"]}'
          })
          expect(yield* get(`${url}/metrics`)).toMatchObject({ status: 401 })
          expect(yield* get(`${url}/metrics`, { authorization: "Bearer scrape-it" })).toMatchObject({ status: 401 })
          const read = yield* get(`${url}/metrics`, { authorization: "Bearer scrape-me" })
          expect(read.text).toMatch(/^nightshift_build_info\{version="[\d.]+"\} 1$/m)
          expect(yield* get(`${url}/nowhere?x=<script>`)).toEqual({
            status: 404,
            text: '{"error":{"tag":"NotFound","message":"No route matches GET /nowhere. GET /api/v1/openapi.json describes all routes."}}'
          })
          yield* running.signal("SIGTERM")
          expect(yield* running.finished).toMatchObject({ code: 0 })
        })
    )
  })
}

describe("the HTTP server", () => {
  inLongRuns("reports that a port is in use, and names the setting to change", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const taken = yield* Effect.acquireRelease(
        Effect.promise(
          () =>
            new Promise<number>((resolve) => {
              const server = createServer().listen(0, "127.0.0.1", () =>
                resolve((server.address() as AddressInfo).port)
              )
              server.unref()
            })
        ),
        () => Effect.void
      )
      const refused = yield* Nightshift.call(["serve", "--port", String(taken)], { cwd })
      expect(refused.code).toBe(1)
      expect(refused.stderr).toContain(`nightshift: Port ${taken} on 127.0.0.1 is already in use.`)
    })
  )

  it.scopedLive("exits at once on a second signal", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const running = yield* serve(cwd)
      // A request with an endless body delays the shutdown, so that the second signal arrives during it.
      const { hostname, port } = new URL(running.url)
      const net = yield* Effect.promise(() => import("node:net"))
      const socket = yield* Effect.acquireRelease(
        Effect.promise(
          () =>
            new Promise<import("node:net").Socket>((resolve) => {
              const client = net.connect(Number(port), hostname, () => {
                client.write("GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", () => resolve(client))
              })
              client.on("error", () => {})
            })
        ),
        (client) => Effect.sync(() => client.destroy())
      )
      yield* running.signal("SIGTERM")
      yield* running.said(/shutting down/)
      yield* running.signal("SIGTERM")
      expect(yield* running.finished).toMatchObject({ code: 143 })
      socket.destroy()
    })
  )
})

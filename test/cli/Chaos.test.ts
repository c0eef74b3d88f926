import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Redacted } from "effect"
import { signsOfProduction } from "../../src/cli/chaos/ChaosCommand.js"
import * as ChaosDatabase from "../../src/cli/chaos/ChaosDatabase.js"
import { faults, type Target } from "../../src/cli/chaos/ChaosFaults.js"
import { RequestFailed, type ServiceClient } from "../../src/cli/ServiceClient.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import * as TestServer from "../http/TestServer.js"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const chaos = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
  Effect.scoped(
    Effect.flatMap(Nightshift.folder, (cwd) =>
      Nightshift.call(["chaos", ...(args.includes("--url") ? [] : ["--url", "http://127.0.0.1:1"]), ...args], {
        cwd,
        env
      })
    )
  )

const token = { NIGHTSHIFT_ADMIN_TOKEN: "sesame" }

describe("nightshift chaos", () => {
  it.live("does nothing without --allow, and lists the faults", () =>
    Effect.gen(function* () {
      const { code, stderr } = yield* chaos([], token)
      expect(code).toBe(2)
      expect(stderr).toMatch(/No fault is allowed, so nothing was done/)
      for (const fault of ["connections", "locks", "pause", "cancel", "sigkill"])
        expect(stderr).toContain(`  ${fault} `)
    })
  )

  it.live.each([
    [["--allow", "pause,meteor"], token, 'unknown fault "meteor"'],
    [
      ["--allow", "pause", "--url", "jobs.example.org"],
      token,
      '--url must be a URL like http://127.0.0.1:8787, got "jobs'
    ],
    [["--allow", "sigkill"], token, "no process is named. Add --pid"],
    [["--allow", "sigkill", "--pid", "12,0"], token, '--pid must be process ids separated by commas, got "0"'],
    [["--allow", "locks"], token, "DATABASE_URL is not set"],
    [["--allow", "pause"], {}, "Set NIGHTSHIFT_ADMIN_TOKEN"],
    [["--allow", "pause", "--rate", "0"], token, "--rate must be between 1 and 100, got 0"]
  ] as const)("refuses %j with %j", ([args, env, expected]) =>
    Effect.gen(function* () {
      const { code, stderr } = yield* chaos([...args], env)
      expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(expected) })
    })
  )

  it.live("says that the service is not reachable", () =>
    Effect.gen(function* () {
      const { code, stderr } = yield* chaos(["--allow", "pause"], token)
      expect(code).toBe(1)
      expect(stderr).toMatch(/127\.0\.0\.1:1\/api\/v1\/session: /)
    })
  )

  it.scopedLive("takes a database elsewhere for production if a fault uses it", () =>
    Effect.gen(function* () {
      const { port } = yield* TestServer.TestServer
      const url = `http://127.0.0.1:${port}`
      for (const hosts of ["db.example.org", "127.0.0.1:1,db.example.org:5432"]) {
        const env = { NIGHTSHIFT_ADMIN_TOKEN: TestServer.adminToken, DATABASE_URL: `postgres://ada:secret@${hosts}/x` }
        const { code, stderr } = yield* chaos(["--url", url, "--allow", "locks"], env)
        expect(code).toBe(1)
        expect(stderr).toMatch(/looks like production: the host db\.example\.org is not local .*Nothing was done/)
        expect(stderr).not.toContain("secret")
      }
    }).pipe(Effect.provide(TestServer.layer()))
  )

  it.scopedLive("does nothing to a queue that is paused or that no process has served", () =>
    Effect.gen(function* () {
      const { admin, port } = yield* TestServer.TestServer
      expect((yield* admin("PATCH", "/api/v1/queues/mail", { json: { paused: true } })).status).toBe(200)
      const run = (queue: string) =>
        chaos(
          ["--url", `http://127.0.0.1:${port}`, "--allow", "pause", "--queue", queue, "--each", "0s", "--drain", "0s"],
          {
            NIGHTSHIFT_ADMIN_TOKEN: TestServer.adminToken
          }
        )
      expect(yield* run("mail")).toMatchObject({
        code: 1,
        stderr: "nightshift: The queue mail is paused. Nothing was done. Resume it, or choose another with --queue.\n"
      })
      expect(yield* run("nowhere")).toMatchObject({
        code: 1,
        stderr:
          "nightshift: No process has ever served the queue nowhere. Nothing was done. Choose one that a process serves with --queue.\n"
      })
      const { jobs } = JSON.parse((yield* admin("GET", "/api/v1/jobs")).text)
      expect(jobs).toEqual([])
      const { queues } = JSON.parse((yield* admin("GET", "/api/v1/queues")).text)
      expect(queues).toMatchObject([{ name: "mail", paused: true }])
    }).pipe(Effect.provide(TestServer.layer()))
  )

  it.scopedLive("says that another server is not a Nightshift service", () =>
    Effect.gen(function* () {
      const site = createServer((_, response) => response.end("<!doctype html>"))
      yield* Effect.acquireRelease(
        Effect.async<void>((resume) => void site.listen(0, "127.0.0.1", () => resume(Effect.void))),
        () => Effect.sync(() => site.close())
      )
      const url = `http://127.0.0.1:${(site.address() as AddressInfo).port}`
      expect(yield* chaos(["--url", url, "--allow", "pause"], token)).toMatchObject({
        code: 1,
        stderr: `nightshift: ${url}/api/v1/session: unexpected response; check that the URL is that of a Nightshift service.\n`
      })
    })
  )

  it.each([
    [["127.0.0.1"], 0, 0],
    [["localhost"], 0, 0],
    [["[::1]"], 0, 0],
    [["jobs.staging.example.org"], 0, 0],
    [["jobs-test.internal"], 0, 0],
    [["jobs.example.org"], 0, 1],
    [["latest.example.org"], 0, 1],
    [["10.0.0.7"], 3, 2],
    [["127.0.0.1"], 3, 1],
    [["127.0.0.1", "/var/run/postgresql"], 0, 0],
    [["127.0.0.1", "db.example.org"], 0, 1]
  ])("takes the hosts %j with %i other jobs for production for %i reasons", (hosts, jobs, reasons) => {
    expect(signsOfProduction(hosts, jobs)).toHaveLength(reasons)
  })
})

/** A process that only waits; closing the Scope kills it. */
const waiting = Effect.acquireRelease(
  Effect.sync(() => spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"])),
  (child) => Effect.sync(() => void child.kill("SIGKILL"))
)

const inject = (fault: string, target: Partial<Target>) =>
  Effect.suspend(
    () =>
      faults[fault]?.inject({ queue: "mail", pids: [], entries: new Map(), ...target } as Target, Duration.zero) ??
      Effect.dieMessage(`no fault ${fault}`)
  )

describe("a fault that could not be injected", () => {
  it.scopedLive("continues the processes that it has stopped", () =>
    Effect.gen(function* () {
      const { pid = 0 } = yield* waiting
      const gone = spawn(process.execPath, ["-e", ""])
      yield* Effect.promise(() => once(gone, "exit"))
      const failure = yield* Effect.flip(inject("sigstop", { pids: [pid, gone.pid ?? 0] }))
      expect(failure.message).toContain(`Cannot send SIGSTOP to process ${gone.pid}`)
      expect(execFileSync("ps", ["-o", "stat=", "-p", `${pid}`]).toString()).not.toMatch(/^T/)
    })
  )

  it.scopedLive.each([
    ["resumes a queue whose pause got no reply", undefined, [true, false]],
    ["leaves a queue alone whose pause was rejected", 403, [true]]
  ] as const)("%s", ([, status, expected]) =>
    Effect.gen(function* () {
      const sent: Array<unknown> = []
      const ask: ServiceClient["ask"] = (_, path, { body } = {}) => {
        sent.push(body)
        return sent.length > 1 ? Effect.succeed({}) : new RequestFailed({ path, status, reason: "socket hang up" })
      }
      yield* Effect.flip(inject("pause", { client: { url: "", ask } }))
      expect(sent).toEqual(expected.map((paused) => ({ paused })))
    })
  )
})

describe("a fault of the database", () => {
  const opened = (url: string) =>
    Effect.flatMap(DatabaseConfig, (config) => ChaosDatabase.open(Redacted.make(url), config)).pipe(
      Effect.provide(DatabaseConfig.layer)
    )

  it.scopedLive("connects to the first server that answers, with or without encryption", () =>
    Effect.gen(function* () {
      const url = Redacted.value(yield* TestDatabase.empty).replace(/@([^/]+)/, "@127.0.0.1:1,$1")
      const { terminateConnections } = yield* opened(`${url}?sslmode=prefer`)
      expect(yield* terminateConnections).toBe(0)
    })
  )

  it.scopedLive("says that it cannot connect, without the password", () =>
    Effect.gen(function* () {
      const { message } = yield* Effect.flip(opened("postgres://ada:secret@127.0.0.1:1/x"))
      expect(message).toMatch(/^Cannot connect to 127\.0\.0\.1:1\/x: connect ECONNREFUSED .*Check DATABASE_URL\.$/)
    })
  )
})

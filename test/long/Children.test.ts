import { existsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import { eventually, isAlive, pidsIn, stubborn } from "../handlers/fixtures/Workshop.js"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const app = fileURLToPath(new URL("../journeys/fixtures/pool-app.mjs", import.meta.url))

/** A pod with a running command and a running worker child that both ignore TERM. */
const busyPod = Effect.gen(function* () {
  const root = yield* Nightshift.folder
  const url = Redacted.value(yield* DatabaseUrl)
  const files = { command: join(root, "command"), worker: join(root, "worker"), begun: join(root, "begun") }
  const env = {
    DATABASE_URL: url,
    CMD_EXEC_ALLOW: "sh",
    CMD_EXEC_ROOT: root,
    SHUTDOWN_GRACE: "200ms",
    LOG_LEVEL: "warning"
  }
  const pod = yield* Nightshift.start(["serve", "--app", app, "--port", "0"], {
    cwd: root,
    env: { ...env, POOL_FILE: files.worker }
  })
  const [, queues] = yield* pod.said(/"queues":(\[.+?\])/)
  expect(queues).toBe('["default","pool","shell"]')
  // Enqueued through two entry points that know the kinds only by their rows.
  const payload = JSON.stringify({ argv: stubborn(files.command) })
  expect(yield* Nightshift.call(["enqueue", "cmd_exec", "--payload", payload], { cwd: root, env })).toMatchObject({
    code: 0
  })
  const { sql } = yield* Database
  yield* sql`select nightshift.enqueue('pool.ask', ${JSON.stringify({ act: "hang", value: files.begun })}::jsonb)`
  yield* eventually(() => existsSync(files.begun))
  const pids = [...(yield* pidsIn(files.command, 3)), ...(yield* pidsIn(files.worker, 1))]
  expect(pids.filter(isAlive)).toEqual(pids)
  return { pod, pids, jobs: sql`select kind, queue, status, attempt from nightshift.job order by kind`, sql }
})

describe.concurrent("a pod with children", () => {
  it.scopedLive("leaves none of them when it is killed with -9, and has declared its routes and limits", () =>
    Effect.gen(function* () {
      const { jobs, pids, pod, sql } = yield* busyPod
      expect(yield* jobs).toEqual([
        { kind: "cmd_exec", queue: "shell", status: "running", attempt: 1 },
        { kind: "pool.ask", queue: "pool", status: "running", attempt: 1 }
      ])
      expect(yield* sql`select scope, capacity, rate from nightshift.rate_limit`).toEqual([
        { scope: "upstream", capacity: 10, rate: 1 }
      ])
      yield* pod.signal("SIGKILL")
      yield* pod.finished
      yield* eventually(() => !pids.some(isAlive))
    }).pipe(Effect.provide(TestDatabase.layer))
  )

  it.scopedLive("ends them when it is asked to stop, and returns their jobs", () =>
    Effect.gen(function* () {
      const { jobs, pids, pod } = yield* busyPod
      yield* pod.signal("SIGTERM")
      expect(yield* pod.finished).toMatchObject({ code: 0 })
      expect(pids.filter(isAlive)).toEqual([])
      expect(yield* jobs).toEqual([
        { kind: "cmd_exec", queue: "shell", status: "pending", attempt: 0 },
        { kind: "pool.ask", queue: "pool", status: "pending", attempt: 0 }
      ])
    }).pipe(Effect.provide(TestDatabase.layer))
  )
})

describe("commands", () => {
  it.scopedLive("are off unless enabled with all required settings", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const url = Redacted.value(yield* DatabaseUrl)
      const serve = (env: Record<string, string>) =>
        Nightshift.call(["serve", "--port", "0"], { cwd, env: { DATABASE_URL: url, LOG_LEVEL: "warning", ...env } })
      writeFileSync(join(cwd, "plain"), "text")
      expect(yield* serve({ CMD_EXEC_ALLOW: "sh" })).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/1 setting is invalid: CMD_EXEC_ROOT: is required with CMD_EXEC_ALLOW/)
      })
      expect(yield* serve({ CMD_EXEC_ALLOW: "sh,no-such-tool", CMD_EXEC_ROOT: cwd })).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/CMD_EXEC_ALLOW: "no-such-tool" is not an executable file/)
      })
      expect(yield* serve({ CMD_EXEC_ALLOW: "sh", CMD_EXEC_ROOT: join(cwd, "plain") })).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/CMD_EXEC_ROOT: .*plain" is not a directory/)
      })
      const pod = yield* Nightshift.start(["serve", "--port", "0"], {
        cwd,
        env: { DATABASE_URL: url, LOG_LEVEL: "warning" }
      })
      yield* pod.said(/is up/)
      const { sql } = yield* Database
      expect(yield* sql`select name, routed from nightshift.kind order by name`).toEqual([
        { name: "noop_echo", routed: true }
      ])
      const refused = yield* Nightshift.call(["enqueue", "cmd_exec"], { cwd, env: { DATABASE_URL: url } })
      expect(refused).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/No process has ever registered the kind "cmd_exec"/)
      })
    }).pipe(Effect.provide(TestDatabase.layer))
  )
})

import { spawn } from "node:child_process"
import { once } from "node:events"
import { copyFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Effect } from "effect"
import { beforeAll, expect, it } from "vitest"
import { useDatabase } from "../client/ClientDatabase.js"
import * as ExampleProject from "../examples/ExampleProject.js"

// Kills a worker with -9 at every statement of the transaction that begins a new journal. Another worker then finishes all
// loops: each continued twice, billed once in each journal, and received the signal that was sent to the first.

const database = useDatabase()
beforeAll(() => database.pool().query("create table bill (key text primary key)"))

const fixture = (name: string) => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url))
const fast = {
  QUEUE_STALE_AFTER: "4s",
  QUEUE_STUCK_TIMEOUT: "3s",
  QUEUE_HEARTBEAT: "500ms",
  QUEUE_JANITOR_INTERVAL: "1s"
}

it("an execution is before its new journal or behind it, wherever its process is killed", { timeout: 300_000 }, () =>
  Effect.gen(function* () {
    const cwd = yield* Effect.tap(ExampleProject.copied("order-workflow"), ExampleProject.compiled)
    for (const name of ["continue-killer.mjs", "statement-killer.mjs"]) copyFileSync(fixture(name), join(cwd, name))
    // A queue for each, so that no process kills itself in the loop of another one.
    const run = (queues: ReadonlyArray<string>, env: Readonly<Record<string, string>>) =>
      spawn(process.execPath, ["continue-killer.mjs"], {
        cwd,
        stdio: ["ignore", "ignore", "inherit"],
        env: { ...process.env, DATABASE_URL: database.url(), ...fast, CONTINUE_QUEUES: JSON.stringify(queues), ...env }
      })
    const ids: Array<string> = []
    for (const when of ["before", "after"]) {
      for (let at = 1; at <= 5; at += 1) {
        const id = `${when}-${at}`
        ids.push(id)
        const killed = run([id], { CONTINUE_KILL_AT: String(at), CONTINUE_KILL_WHEN: when, CONTINUE_ID: id })
        const [, signal] = yield* Effect.promise(() => once(killed, "exit"))
        expect(signal).toBe("SIGKILL")
      }
    }
    const last = run(ids, { CONTINUE_KILL_AT: "0" })
    yield* Effect.addFinalizer(() => Effect.sync(() => last.kill("SIGKILL")))
    const read = (text: string) => Effect.promise(async () => (await database.pool().query(text)).rows)
    yield* read("select count(*)::int as n from nightshift.job where finished_at is null").pipe(
      Effect.delay("500 millis"),
      Effect.repeat({ until: ([row]) => row.n === 0 })
    )
    const loops = yield* read(`select j.dedupe_key as id, j.status, l.continued, j.result->>'extra' as extra,
        (select count(*)::int from nightshift.workflow_step s where s.job_id = j.id) as steps
      from nightshift.job j join nightshift.workflow_lifetime l on l.job_id = j.id order by 1`)
    expect(loops).toEqual(
      ids
        .map((id) => ({ id: `loop/${id}`, status: "done", continued: 2, extra: "kept", steps: 2 }))
        .sort((a, b) => (a.id < b.id ? -1 : 1))
    )
    const bills = yield* read("select key from bill order by 1")
    const keys = ids.flatMap((id) => ["", "@1", "@2"].map((journal) => `loop/${id}${journal}/bill`))
    expect(bills.map(({ key }) => key).sort()).toEqual(keys.sort())
  }).pipe(Effect.scoped, Effect.runPromise)
)

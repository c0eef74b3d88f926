import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import pg from "pg"
import { z } from "zod"
import { connect, event, job, on, worker, workflow } from "../../src/client/index.js"
import { digestOf } from "../../src/database/SubjectText.js"
import { serve } from "../journeys/fixtures/UploadService.js"
import { dump, linesWith } from "../support/Dump.js"
import * as Nightshift from "../support/Nightshift.js"
import { scale } from "../support/Scale.js"

const subject = "customer:quartz-77"
const marker = "Zebulon Quartz"
const other = "Otto Keep"
const killer = fileURLToPath(new URL("fixtures/move-killer.mjs", import.meta.url))
const [most, by] = [scale("ERASE_KILLS", 90), scale("ERASE_KILLS_STEP", 2)]

const Named = z.object({ name: z.string() })
const greet = job("greet", { payload: Named, queue: "erased" })
const fail = job("fail", { payload: Named, queue: "erased", attempts: 1 })
const again = job("again", { payload: Named, queue: "erased", attempts: 3 })
const endless = job("endless", { payload: Named, queue: "erased" })
const paid = event("paid", Named)
const sold = event("sold", Named)

const small = workflow("small", { payload: Named, queue: "erased" }, async ({ name }) => `small ${name}`)

const order = workflow(
  "order",
  {
    payload: Named,
    queue: "erased",
    signals: { approval: Named },
    asks: { greeting: { payload: Named, result: z.string() } }
  },
  async ({ name }, step) => {
    step.answer("greeting", (asked) => `hello ${asked.name}`)
    await step.set("who", name)
    await step.tag({ customer: name })
    await step.run(`mail ${name}`, () => ({ to: name }), { undo: () => {} })
    await step.stream("tokens", async function* () {
      yield name
    })
    await step.all(`greet ${name}`, [name], (each) => small({ name: each }))
    const { name: by } = await step.waitFor("approval")
    return `${name} by ${by}`
  }
)

const waiting = workflow("waiting", { payload: Named, queue: "erased" }, async ({ name }, step) => {
  await step.run("note", () => name, { undo: () => {} })
  await step.waitForEvent(paid, { match: { "data.name": `${name} never` } })
})

describe("nightshift erase, killed with -9", { timeout: 600_000 }, () => {
  it.scopedLive("leaves no text of the person in the database, and states and counts as they were", () =>
    Effect.gen(function* () {
      const service = yield* serve({ UPLOADS_JOB_KIND: "noop_echo" })
      const client = new pg.Client({ connectionString: service.database })
      yield* Effect.acquireRelease(
        Effect.promise(() => client.connect()),
        () => Effect.promise(() => client.end())
      )
      const api = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
        const response = await fetch(`${service.url}${path}`, {
          method,
          headers: { authorization: "Bearer admin-sesame", "content-type": "application/json", ...headers },
          ...(body === undefined ? {} : { body: JSON.stringify(body) })
        })
        const text = await response.text()
        return { status: response.status, json: text === "" ? undefined : JSON.parse(text), text }
      }
      const shift = yield* Effect.acquireRelease(
        Effect.promise(() => connect(service.database, { log: false })),
        (open) => Effect.promise(() => open.close())
      )
      const handlers = [
        greet.handle(async ({ name }, { log, progress }) => {
          log.info(`greeting ${name}`)
          await progress({ greeted: name })
          return { hello: name }
        }),
        fail.handle(async ({ name }) => {
          throw new Error(`no mail for ${name}`)
        }),
        again.handle(async ({ name }) => {
          throw new Error(`later for ${name}`)
        }),
        endless.handle(
          (_, { signal }) => new Promise((_, stop) => signal.addEventListener("abort", () => stop(signal.reason)))
        ),
        on(paid, { as: "receipt", queue: "erased" }, async ({ name }) => ({ receipt: name })),
        on(sold, { as: "digest", queue: "erased", debounce: "1h" }, async () => {}),
        on(sold, { as: "joined", queue: "erased", debounce: "200ms" }, async (all) => all.map(({ name }) => name)),
        small,
        order,
        waiting
      ]
      yield* Effect.promise(() => worker(shift, { handlers, queues: { erased: { workers: 10, perKey: 2 } } }))

      /** Data of a person in every place. */
      const fill = async (name: string, own: string) => {
        const payload = { name }
        const options = { subject: own }
        await shift.enqueue(greet, payload, {
          ...options,
          key: name,
          meta: { about: name },
          dedupe: { key: name, scope: "retained" }
        })
        await shift.enqueueMany(
          greet,
          Array.from({ length: 120 }, () => payload),
          { subject: () => own }
        )
        await shift.enqueue(fail, payload, { ...options, key: name })
        await shift.enqueue(again, payload, options)
        await shift.enqueue(greet, payload, { ...options, delay: "1d", key: `${name} later` })
        await shift.publish(paid, payload, { ...options, key: name, id: name })
        await shift.publish(sold, payload, { ...options, id: name })
        const run = await shift.start(order, payload, { ...options, key: name, tags: { name } })
        expect(await run.ask("greeting", payload)).toBe(`hello ${name}`)
        await run.signal("approval", payload)
        expect(await run.result()).toBe(`${name} by ${name}`)
        await run.signal("approval", { name: `${name} once more` })
        await shift.start(waiting, payload, { ...options, key: name })
        await shift.schedules.put(greet.schedule(own.replace(/\W/g, "-"), { cron: "0 0 1 1 *", payload, ...options }))
        const batch = {
          name: `batch of ${name}`,
          jobs: [
            { kind: "greet", payload },
            { kind: "greet", payload, delay: "1d" }
          ],
          followUp: { kind: "greet", payload },
          ...options
        }
        expect((await api("POST", "/api/v1/batches", batch, { "idempotency-key": `batch ${own}` })).status).toBe(201)
        const form = new FormData()
        form.append("files", new Blob([`letter of ${name}`]), `${name}.txt`)
        const upload = await fetch(`${service.url}/uploads/acme`, {
          method: "POST",
          headers: { authorization: `Bearer ${service.token}`, subject: own },
          body: form
        })
        expect(upload.status).toBe(201)
        const { id } = await shift.enqueue(greet, payload, { ...options, delay: "1d" })
        expect((await api("DELETE", `/api/v1/jobs/${id}`)).status).toBe(200)
        const bulk = { action: "run-now", filter: { key: `${name} later` }, reason: `${own} called` }
        const { json } = await api("POST", "/api/v1/jobs/bulk", bulk)
        while ((await api("GET", `/api/v1/operations/${json.operation}`)).json.status === "running");
        const view = { name: `view of ${own}`, page: "jobs", filter: { search: name } }
        expect((await api("POST", "/api/v1/views", view)).status).toBe(201)
      }
      yield* Effect.promise(() => fill(marker, subject))
      yield* Effect.promise(() => fill(other, "customer:otto"))
      const settled = `select count(*)::int as n from nightshift.job where finished_at is null and run_at < now() + interval '1 minute'
        and kind not in ('again', 'waiting')`
      yield* Effect.repeat(
        Effect.promise(() => client.query(settled)),
        { until: ({ rows }) => rows[0].n === 0, schedule: Schedule.spaced("200 millis") }
      )
      yield* Effect.promise(() => shift.enqueue(endless, { name: marker }, { subject }))
      yield* Effect.repeat(
        Effect.promise(() => client.query("select from nightshift.job where kind = 'endless' and status = 'running'")),
        { until: ({ rowCount }) => rowCount === 1, schedule: Schedule.spaced("100 millis") }
      )

      const before = yield* Effect.promise(() => dump(client))
      const tables = (whole: string, text: string) =>
        new Set(linesWith(whole, text).map((line) => line.slice(0, line.indexOf(" "))))
      // Otherwise the end of the test says nothing.
      for (const table of [
        ...["job", "job_log", "job_undo", "workflow_step", "workflow_deferred", "workflow_child", "workflow_chunk"],
        ...["workflow_tag", "event_wait", "batch", "event", "upload", "upload_chunk", "schedule", "operation", "audit"],
        ...["saved_view", "idempotency"]
      ])
        expect(tables(before, marker), table).toContain(table)
      expect(tables(before, subject)).toContain("audit")
      const ended =
        "select id, kind, queue, status, dead_reason, attempt, created_at, finished_at from nightshift.job where finished_at is not null order by id"
      const batches = "select id, total from nightshift.batch order by id"
      const jobsBefore = (yield* Effect.promise(() => client.query(ended))).rows
      const batchesBefore = (yield* Effect.promise(() => client.query(batches))).rows
      const kept = linesWith(before, other)

      const args = ["erase", "--subject", subject, "--yes", "--reason", `request of ${subject}`]
      const cwd = yield* Nightshift.folder
      const numbers = Array.from({ length: Math.ceil(most / by) }, (_, n) => 1 + n * by)
      let kills = 0
      for (const [place, at] of numbers.entries()) {
        const env = {
          DATABASE_URL: service.database,
          NODE_OPTIONS: `--import ${killer}`,
          MOVE_KILL_AT: String(at),
          MOVE_KILL_WHEN: place % 2 === 0 ? "before" : "after"
        }
        const { code, signal, stderr } = yield* Nightshift.run(args, { cwd, env })
        expect(code === 0 || signal === "SIGKILL", `exit code ${code}: ${stderr}`).toBe(true)
        if (code === 0) break
        kills += 1
      }
      // Each is killed later than the one before, and continues what that one has left.
      expect(kills).toBeGreaterThan(5)
      const env = { DATABASE_URL: service.database }
      const last = yield* Nightshift.run(args, { cwd, env })
      expect(last).toMatchObject({ code: 0, stderr: "", stdout: expect.stringMatching(/^erased /) })

      const after = yield* Effect.promise(() => dump(client))
      for (const text of [marker, "Zebulon", subject, "quartz-77", digestOf(subject)])
        expect(linesWith(after, text), text).toEqual([])
      // Other people keep theirs.
      expect(new Set(linesWith(after, other)).size).toBe(new Set(kept).size)
      const jobsAfter = (yield* Effect.promise(() => client.query(ended))).rows
      const now = new Map(jobsAfter.map((row) => [row.id, row]))
      expect(jobsBefore.map(({ id }) => now.get(id))).toEqual(jobsBefore)
      expect((yield* Effect.promise(() => client.query(batches))).rows).toEqual(batchesBefore)
      const open = yield* Effect.promise(() =>
        client.query(
          "select kind, dead_reason from nightshift.job where meta ? 'subjectErasedAt' and kind in ('endless', 'waiting', 'again') order by kind"
        )
      )
      expect(open.rows.filter(({ kind }) => kind !== "again")).toEqual([
        { kind: "endless", dead_reason: "cancelled" },
        { kind: "waiting", dead_reason: "cancelled" }
      ])

      // What is left can be read, and not run again.
      const [erased] = (yield* Effect.promise(() => shift.jobs.list({ kind: "fail", state: "dead" }).toArray())).filter(
        ({ payload }) => payload === null
      )
      const refused = yield* Effect.promise(() => api("POST", `/api/v1/jobs/${erased?.id}/requeue`))
      expect(refused).toMatchObject({ status: 409, text: expect.stringContaining("its data was erased") })
      for (const path of [`jobs/${erased?.id}`, `jobs/${erased?.id}/why`, "jobs?limit=200", "workflows", "batches"])
        expect((yield* Effect.promise(() => api("GET", `/api/v1/${path}`))).status, path).toBe(200)
      const shown = yield* Nightshift.run(["erase", "--subject", subject], { cwd, env })
      expect(shown.stdout).toMatch(/^Nothing is stored of sha256:/)
      const audit = yield* Effect.promise(() => api("GET", "/api/v1/audit?act=subject.erase"))
      expect(audit.json.entries[0]).toMatchObject({
        act: "subject.erase",
        target: expect.stringMatching(/^sha256:\w{12}$/)
      })
    })
  )
})

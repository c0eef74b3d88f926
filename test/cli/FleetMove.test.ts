import { basename } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { z } from "zod"
import { event, job, worker, workflow } from "../../src/client/index.js"
import * as FleetFolder from "../support/FleetFolder.js"
import * as Nightshift from "../support/Nightshift.js"

const greet = job("greet", { payload: z.object({ who: z.string() }), queue: "mail" })
const Payload = z.object({ id: z.string() })
const signals = { approval: z.object({ by: z.string() }) }
const bill = workflow(
  "bill",
  { payload: Payload, key: ({ id }) => id, queue: "bills", signals },
  async ({ id }, step) => {
    const charged = await step.run("charge", () => `charge-${id}`)
    const approval = await step.waitFor("approval")
    return `${charged} ${approval?.by}`
  }
)
const shipped = event("shipped", Payload)
const delivery = workflow(
  "delivery",
  { payload: Payload, key: ({ id }) => id, queue: "bills" },
  async ({ id }, step) => {
    const event = await step.waitForEvent(shipped, { match: { "data.id": id } })
    return `shipped ${event.id}`
  }
)
const child = workflow("child", { payload: Payload, queue: "mail" }, async () => "grown")
const family = workflow("family", { payload: Payload, key: ({ id }) => id, queue: "bills" }, async ({ id }, step) =>
  step.all("children", [id], (each) => child({ id: each }))
)

const fleet = FleetFolder.make(["main", "mail", "mail-2"], "  other: mail # stays\n")

const run = <A>(call: () => Promise<A>) => Effect.promise(call)

describe("nightshift fleet move", () => {
  it.scopedLive("moves a queue with its jobs, settings and place in the list, and later the jobs of old lists", () =>
    Effect.gen(function* () {
      const { call, cell, file, ids, query, text } = yield* fleet
      const main = yield* cell("main")
      const made = yield* run(() =>
        Promise.all(["a", "b", "c"].map((who) => main.enqueue(greet, { who }, { key: who })))
      )
      yield* run(() =>
        main.enqueue(greet, { who: "later" }, { delay: "1h", dedupe: { key: "later", scope: "retained" } })
      )
      yield* run(() => main.queues.pause("mail"))
      yield* run(() => main.queues.change("mail", { rate: "90/m", perKey: 1, paused: false }))
      const before = text()
      const all = yield* ids("main", "mail")

      const dry = yield* call("move", "mail", "--to", "mail-2", "--dry-run")
      expect(dry).toMatchObject({ code: 0, stderr: "", stdout: expect.stringMatching(/mail +main +mail-2 +4 +0/) })
      expect(dry.stdout).toContain("4 jobs would move")
      expect([text(), yield* ids("main", "mail")]).toEqual([before, all])

      const moved = yield* call("move", "mail", "--to", "mail-2")
      expect(moved).toMatchObject({
        code: 0,
        stderr: "",
        stdout: expect.stringContaining("moved 4 jobs; 4 can start now")
      })
      expect(moved.stdout).toContain(`changed ${basename(file)}:\n  +   mail: mail-2`)
      expect(text()).toBe(before.replace("queues:\n", "queues:\n  mail: mail-2\n"))
      expect([yield* ids("main", "mail"), yield* ids("mail-2", "mail")]).toEqual([[], all])
      const settings = "select paused, rate_jobs, key_concurrency from nightshift.queue where name = 'mail'"
      expect(yield* query("main", settings)).toEqual([{ paused: true, rate_jobs: 90, key_concurrency: 1 }])
      expect(yield* query("mail-2", settings)).toEqual([{ paused: false, rate_jobs: 90, key_concurrency: 1 }])

      // A producer with the old list. Its dedupe key belongs to a job that has moved.
      const late = yield* run(() => main.enqueue(greet, { who: "late" }))
      yield* run(() => main.enqueue(greet, { who: "again" }, { dedupe: { key: "later" } }))
      const findings = yield* Effect.map(call("doctor", "--json"), ({ stdout }) => stdout)
      expect(findings).toContain("2 unfinished jobs of queue mail are here, but the fleet places it in mail-2.")
      expect(findings).toContain("nightshift fleet move mail")
      const second = yield* call("move", "mail")
      expect(second.stdout).toContain("moved 2 jobs")
      expect(second.stdout).toContain("1 job lost the dedupe key")
      expect((yield* ids("mail-2", "mail")).includes(late.id)).toBe(true)

      const target = yield* cell("mail-2")
      const ran: Array<string> = []
      const handler = greet.handle(async ({ who }) => void ran.push(who))
      yield* run(() => worker(target, { handlers: [handler], queues: { mail: 5 } }))
      yield* run(() => Promise.all([...made, late].map(({ id }) => target.result(id, { timeout: "1m" }))))
      expect(ran.toSorted()).toEqual(["a", "again", "b", "c", "late"])
    })
  )

  it.scopedLive("moves executions with their journals, and signals that come to either cell", () =>
    Effect.gen(function* () {
      const { call, cell, query } = yield* fleet
      const [main, mail] = [yield* cell("main"), yield* cell("mail")]
      const ended = yield* run(async () => {
        const stopping = await worker(main, { handlers: [bill, family], queues: { bills: 5 } })
        const executions = await Promise.all(["one", "two", "three"].map((id) => main.start(bill, { id })))
        await main.execution(bill, "three").signal("approval", { by: "cy" })
        await executions[2]?.result()
        return stopping
      })
      const waiting =
        "select count(*)::int as n from nightshift.workflow_deferred where waiting and completed_at is null"
      yield* Effect.repeat(query("main", waiting), { until: ([row]) => row?.n === 2 })
      yield* run(() => ended.stop())
      yield* run(() => main.execution(bill, "one").signal("approval", { by: "ada" }))
      const moved = yield* call("move", "bills", "--to", "mail")
      expect(moved).toMatchObject({ code: 0, stderr: "" })
      // To the old cell, after the move.
      yield* run(() => main.execution(bill, "two").signal("approval", { by: "bob" }))
      const again = yield* call("move", "bills")
      expect(again.stdout).toContain("sent 1 signal that came to main on to mail")
      yield* run(() => worker(mail, { handlers: [bill, family], queues: { bills: 5 } }))
      const results = yield* run(() =>
        Promise.all(["one", "two", "three"].map((id) => mail.execution(bill, id).result()))
      )
      expect(results).toEqual(["charge-one ada", "charge-two bob", "charge-three cy"])
      expect(yield* query("main", "select from nightshift.workflow_step")).toEqual([])
    })
  )

  it.scopedLive("wakes executions that wait for an event, which then comes in their new cell", () =>
    Effect.gen(function* () {
      const { call, cell, query } = yield* fleet
      const [main, mail] = [yield* cell("main"), yield* cell("mail")]
      const stopping = yield* run(async () => {
        const stopping = await worker(main, { handlers: [delivery], queues: { bills: 5 } })
        await Promise.all(["one", "two"].map((id) => main.start(delivery, { id })))
        return stopping
      })
      const waiting =
        "select count(*)::int as n from nightshift.workflow_deferred where waiting and completed_at is null"
      yield* Effect.repeat(query("main", waiting), { until: ([row]) => row?.n === 2 })
      yield* run(() => stopping.stop())
      expect(yield* call("move", "bills", "--to", "mail")).toMatchObject({ code: 0, stderr: "" })
      yield* run(() => mail.publish(shipped, { id: "one" }))
      yield* run(() => worker(mail, { handlers: [delivery], queues: { bills: 5 } }))
      const result = (id: string) => run(() => mail.execution(delivery, id).result({ timeout: "20s" }))
      expect(yield* result("one")).toBe("shipped one")
      yield* run(() => mail.publish(shipped, { id: "two" }))
      expect(yield* result("two")).toBe("shipped two")
    })
  )

  it.scopedLive("refuses executions whose children would stay, and moves both queues together", () =>
    Effect.gen(function* () {
      const { call, cell, query } = yield* fleet
      const main = yield* cell("main")
      yield* run(async () => {
        const started = await worker(main, { handlers: [family], queues: { bills: 5 } })
        await main.start(family, { id: "f" })
        return started
      })
      const links = "select count(*)::int as n from nightshift.workflow_child"
      yield* Effect.repeat(query("main", links), { until: ([row]) => row?.n === 1 })
      const refused = yield* call("move", "bills", "--to", "mail")
      expect(refused).toMatchObject({
        code: 1,
        stderr: expect.stringContaining("Executions of queue bills wait for 1 job of queue mail, which stays in main.")
      })
      expect(refused.stderr).toContain("nightshift fleet move bills mail --to mail")
      const both = yield* call("move", "bills", "mail", "--to", "mail")
      expect(both).toMatchObject({ code: 0, stderr: "", stdout: expect.stringContaining("moved 2 jobs") })
      const mail = yield* cell("mail")
      const handlers = [family, child]
      yield* run(() => worker(mail, { handlers, queues: { bills: 1, mail: 1 } }))
      yield* run(() => mail.execution(family, "f").result())
    })
  )

  it.scopedLive("holds a job that its key has begun, whose id claims remember", () =>
    Effect.gen(function* () {
      const { call, cell, query } = yield* fleet
      const [main, target] = [yield* cell("main"), yield* cell("mail-2")]
      const ran: Array<string> = []
      const handler = greet.handle(async ({ who }) => {
        ran.push(who)
        if (who === "first" && ran.length === 1) throw new Error("not yet")
      })
      const queues = { mail: { workers: 2, perKey: { concurrency: 1, order: "strict" } } } as const
      yield* run(() => worker(main, { handlers: [handler], queues }))
      const first = yield* run(() => main.enqueue(greet, { who: "first" }, { key: "k" }))
      const failed = "select from nightshift.job where last_error is not null"
      yield* Effect.repeat(query("main", failed), { until: (rows) => rows.length === 1 })
      yield* query("main", "update nightshift.job set queue = 'mail>main>mail-2', run_at = created_at")
      const second = yield* run(() => main.enqueue(greet, { who: "second" }, { key: "k" }))
      for (const who of ["third", "fourth"]) {
        const { id } = yield* run(() => main.enqueue(greet, { who }, { key: who }))
        yield* run(() => main.result(id, { timeout: "1m" }))
      }
      expect(ran).toEqual(["first", "third", "fourth"])
      // The order holds in the new cell.
      expect(yield* call("move", "mail", "--to", "mail-2")).toMatchObject({ code: 0, stderr: "" })
      yield* run(() => worker(target, { handlers: [handler], queues }))
      yield* run(() => Promise.all([first, second].map(({ id }) => target.result(id, { timeout: "1m" }))))
      expect(ran).toEqual(["first", "third", "fourth", "first", "second"])
    })
  )
})

/** `nightshift jobs` in a cell. */
const jobsCommand = ({ cwd }: Effect.Effect.Success<typeof fleet>, act: string, id: string, cell: string) =>
  Nightshift.call(["jobs", act, id, "--cell", cell], { cwd, env: {} })

describe("a dedupe key that another job takes while the command stores the first one", () => {
  it.scopedLive("is that of the other job, and no job is lost", () =>
    Effect.gen(function* () {
      const { call, cell, ids, transaction } = yield* fleet
      const [main, target] = [yield* cell("main"), yield* cell("mail-2")]
      const dedupe = { key: "k", scope: "retained" } as const
      const moving = yield* run(() => main.enqueue(greet, { who: "moves" }, { dedupe }))
      const other = yield* transaction("mail-2")
      const taking = yield* run(() => target.enqueue(greet, { who: "takes" }, { dedupe, tx: other.client }))
      const going = yield* Effect.fork(call("move", "mail", "--to", "mail-2"))
      yield* other.commitOnceAwaited
      const moved = yield* Effect.fromFiber(going)
      expect(moved).toMatchObject({ code: 0, stderr: "" })
      expect(moved.stdout).toContain("1 job lost the dedupe key, which another job has in the new cell: both run")
      expect(yield* ids("main", "mail")).toEqual([])
      expect(yield* ids("mail-2", "mail")).toEqual([moving.id, taking.id].sort())
      expect((yield* run(() => target.job(moving.id))).dedupe).toBe(undefined)
    })
  )

  it.scopedLive("keeps an execution where it is", () =>
    Effect.gen(function* () {
      const { call, cell, ids, transaction } = yield* fleet
      const [main, target] = [yield* cell("main"), yield* cell("mail-2")]
      const { id } = yield* run(() => main.start(bill, { id: "one" }))
      const other = yield* transaction("mail-2")
      const taking = yield* run(() => target.start(bill, { id: "one" }, { tx: other.client }))
      const going = yield* Effect.fork(call("move", "bills", "--to", "mail-2"))
      yield* other.commitOnceAwaited
      const moved = yield* Effect.fromFiber(going)
      expect(moved).toMatchObject({ code: 1, stderr: expect.stringContaining("bill/one") })
      expect([yield* ids("main", "bills"), yield* ids("mail-2", "bills")]).toEqual([[id], [taking.id]])
    })
  )
})

describe("two commands, or one that was killed", () => {
  it.scopedLive("lose no job that one returns while the other deletes it in the old cell", () =>
    Effect.gen(function* () {
      const folder = yield* fleet
      const { call, cell, ids, query, transaction } = folder
      const main = yield* cell("main")
      const { id } = yield* run(() => main.enqueue(greet, { who: "a" }))
      yield* query("main", "update nightshift.job set queue = 'mail>main>mail-2'")
      yield* folder.copyJobs("main", "mail-2", "mail>main>mail-2")
      const other = yield* transaction("main")
      yield* run(() => other.client.query("delete from nightshift.job"))
      const going = yield* Effect.fork(call("move", "mail", "--to", "main"))
      yield* other.commitOnceAwaited
      expect(yield* going).toMatchObject({ code: 0, stderr: "" })
      expect([yield* ids("main", "mail"), yield* ids("mail-2", "mail")]).toEqual([[id], []])
    })
  )

  it.scopedLive("keep what an operator did to a job in one of the cells that have it", () =>
    Effect.gen(function* () {
      const folder = yield* fleet
      const { call, cell, query } = folder
      const [main, target] = [yield* cell("main"), yield* cell("mail-2")]
      const acts = ["cancel here", "cancel there", "run here", "run there", "nothing"]
      const jobs = yield* run(() => Promise.all(acts.map((who) => main.enqueue(greet, { who }, { delay: "1h" }))))
      yield* query("main", "update nightshift.job set queue = 'mail>main>mail-2'")
      yield* folder.copyJobs("main", "mail-2", "mail>main>mail-2")
      for (const [place, { id }] of jobs.entries()) {
        const [act = "", where] = acts[place]?.split(" ") ?? []
        if (where === undefined) continue
        expect(yield* jobsCommand(folder, act, id, where === "here" ? "main" : "mail-2")).toMatchObject({ code: 0 })
      }
      expect(yield* call("move", "mail", "--to", "mail-2")).toMatchObject({ code: 0, stderr: "" })
      const found = yield* run(() => Promise.all(jobs.map(({ id }) => target.job(id))))
      expect(found.map(({ state }) => state)).toEqual(["cancelled", "cancelled", "pending", "pending", "scheduled"])
      expect(found.map(({ queue }) => queue)).toEqual(acts.map(() => "mail"))
      expect(yield* query("main", "select from nightshift.job")).toEqual([])
    })
  )

  it.scopedLive("do not let a job be deleted in one of the cells that have it", () =>
    Effect.gen(function* () {
      const folder = yield* fleet
      const { call, cell, ids, query } = folder
      const [main, target] = [yield* cell("main"), yield* cell("mail-2")]
      const { id } = yield* run(() => main.enqueue(greet, { who: "a" }))
      yield* query("main", "update nightshift.job set queue = 'mail>main>mail-2'")
      yield* folder.copyJobs("main", "mail-2", "mail>main>mail-2")
      for (const name of ["main", "mail-2"]) {
        const refused = yield* jobsCommand(folder, "delete", id, name)
        expect(refused.code).toBe(1)
        expect(refused.stderr).toContain("Run `nightshift fleet move mail` first, or cancel the job.")
      }
      for (const shift of [main, target])
        expect(yield* run(() => shift.jobs.delete({ queue: "mail>main>mail-2" }))).toMatchObject({ done: 0 })
      expect(yield* call("move", "mail", "--to", "mail-2")).toMatchObject({ code: 0, stderr: "" })
      expect(yield* ids("mail-2", "mail")).toEqual([id])
      expect(yield* jobsCommand(folder, "delete", id, "mail-2")).toMatchObject({ code: 0 })
      expect(yield* ids("mail-2", "mail")).toEqual([])
    })
  )

  it.scopedLive("leave a batch of another queue with its jobs", () =>
    Effect.gen(function* () {
      const folder = yield* fleet
      const { call, cell, query } = folder
      const main = yield* cell("main")
      yield* run(() => main.batches.create((add) => add(greet, { who: "a" }, { queue: "sms" })))
      yield* run(() => main.enqueue(greet, { who: "b" }))
      // As after kill -9 before the first copy.
      yield* query("main", "update nightshift.job set queue = 'sms>main>mail-2' where queue = 'sms'")
      const close =
        "update nightshift.batch set closed_at = '9999-12-31 00:00:00+00', counts = jsonb_build_object('moving', $1::text)"
      yield* query("main", close, ["main>mail-2"])
      const open =
        "select count(*)::int as n, count(*) filter (where closed_at is null)::int as open from nightshift.batch"
      expect(yield* call("move", "mail", "--to", "mail-2")).toMatchObject({ code: 0, stderr: "" })
      expect([yield* query("main", open), yield* query("mail-2", open)]).toEqual([
        [{ n: 1, open: 0 }],
        [{ n: 0, open: 0 }]
      ])
      expect(yield* call("move", "mail", "--to", "main")).toMatchObject({ code: 0, stderr: "" })
      expect(yield* query("main", open)).toEqual([{ n: 1, open: 0 }])
      expect(yield* call("move", "sms", "--to", "mail-2")).toMatchObject({ code: 0, stderr: "" })
      expect([yield* query("main", open), yield* query("mail-2", open)]).toEqual([
        [{ n: 0, open: 0 }],
        [{ n: 1, open: 1 }]
      ])
      // A move to main that was interrupted when all jobs had left and the batch had not: it follows them, and both return.
      yield* query("mail-2", "update nightshift.job set queue = 'sms>mail-2>main' where queue = 'sms'")
      yield* query("mail-2", close, ["mail-2>main"])
      yield* folder.copyJobs("mail-2", "main", "sms>mail-2>main")
      yield* query("mail-2", "delete from nightshift.job where queue = 'sms>mail-2>main'")
      expect(yield* call("move", "sms", "--to", "mail-2")).toMatchObject({ code: 0, stderr: "" })
      expect([yield* query("main", open), yield* query("mail-2", open)]).toEqual([
        [{ n: 0, open: 0 }],
        [{ n: 1, open: 1 }]
      ])
    })
  )
})

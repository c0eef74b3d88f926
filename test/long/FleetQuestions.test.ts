import { randomUUID } from "node:crypto"
import { writeFileSync } from "node:fs"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { z } from "zod"
import { job, worker } from "../../src/client/index.js"
import * as FleetFolder from "../support/FleetFolder.js"
import * as Nightshift from "../support/Nightshift.js"

// The answers of docs/operate/fleet-questions.md.

const greet = job("greet", { payload: z.object({ who: z.string() }), queue: "mail" })
const names = ["main", "mail", "mail-2"]
const made = FleetFolder.make(names, "  mail: mail\n")
const run = <A>(call: () => Promise<A>) => Effect.promise(call)

describe("what happens if", { timeout: 120_000 }, () => {
  it.scopedLive("two lists disagree: a job with the same id in two cells is kept once", () =>
    Effect.gen(function* () {
      const { call, cell, fleet, ids, text, file } = yield* made
      const id = randomUUID()
      const first = yield* fleet()
      writeFileSync(file, text().replace("mail: mail\n", "mail: mail-2\n"))
      const second = yield* fleet()
      yield* run(() => first.enqueue(greet, { who: "a" }, { id }))
      yield* run(() => second.enqueue(greet, { who: "a" }, { id }))
      expect([yield* ids("mail", "mail"), yield* ids("mail-2", "mail")]).toEqual([[id], [id]])
      const moved = yield* call("move", "mail")
      expect(moved).toMatchObject({ code: 0, stdout: expect.stringContaining("deleted 1 old copy of jobs") })
      expect([yield* ids("mail", "mail"), yield* ids("mail-2", "mail")]).toEqual([[], [id]])
      const target = yield* cell("mail-2")
      const ran: Array<string> = []
      yield* run(() => worker(target, { handlers: [greet.handle(async ({ who }) => void ran.push(who))] }))
      yield* run(() => target.result(id, { timeout: "1m" }))
      expect(ran).toEqual(["a"])
    })
  )

  it.scopedLive("the old cell is restored from a backup: jobs that have moved are deleted there", () =>
    Effect.gen(function* () {
      const { call, fleet, ids, query } = yield* made
      const shift = yield* fleet()
      const { id } = yield* run(() => shift.enqueue(greet, { who: "a" }))
      yield* query("mail", "create table backup as select * from nightshift.job")
      expect((yield* call("move", "mail", "--to", "mail-2")).code).toBe(0)
      yield* query("mail", "insert into nightshift.job select * from backup")
      yield* query("mail", "update nightshift.queue set paused = false")
      const doctor = yield* call("doctor")
      expect(doctor.stdout).toContain("1 unfinished job of queue mail is here, but the fleet places it in mail-2.")
      expect((yield* call("move", "mail")).stdout).toContain(
        "deleted 1 old copy of jobs that the other cell has already"
      )
      expect([yield* ids("mail", "mail"), yield* ids("mail-2", "mail")]).toEqual([[], [id]])
    })
  )

  it.scopedLive("a cell is renamed: its jobs are found by id, and no key changes its place if it is the only one", () =>
    Effect.gen(function* () {
      const { file, fleet, text } = yield* made
      const before = yield* fleet()
      const { id } = yield* run(() => before.enqueue(greet, { who: "a" }, { key: "k" }))
      writeFileSync(file, text().replace("  mail:", "  post:").replace("mail: mail\n", "mail: post\n"))
      const after = yield* fleet()
      expect(after.cells).toEqual(["main", "post", "mail-2"])
      expect(yield* run(() => after.job(id))).toMatchObject({ queue: "mail", state: "pending" })
    })
  )

  it.scopedLive("a clock is five minutes ahead: a job waits until the clock of its new cell has reached its time", () =>
    Effect.gen(function* () {
      const { call, cell, fleet, query } = yield* made
      const shift = yield* fleet()
      const { id } = yield* run(() => shift.enqueue(greet, { who: "a" }))
      const ahead =
        "update nightshift.job set run_at = run_at + interval '5 min', created_at = created_at + interval '5 min'"
      yield* query("mail", ahead)
      expect((yield* call("move", "mail", "--to", "mail-2")).code).toBe(0)
      const target = yield* cell("mail-2")
      yield* run(() => worker(target, { handlers: [greet.handle(async () => {})] }))
      expect(yield* run(() => target.why(id))).toMatchObject({ reason: "not_due" })
      yield* query("mail-2", "update nightshift.job set run_at = created_at - interval '5 min'")
      yield* run(() => target.result(id, { timeout: "1m" }))
    })
  )

  it.scopedLive("a key moves twice and returns, and an interrupted move goes back", () =>
    Effect.gen(function* () {
      const { call, fleet, ids, query, text } = yield* made
      const shift = yield* fleet()
      const { id } = yield* run(() => shift.enqueue(greet, { who: "a" }, { key: "k", delay: "1h" }))
      for (const to of ["mail-2", "main", "mail-2", "mail"]) {
        expect((yield* call("move", "mail", "--to", to)).code).toBe(0)
        expect(yield* Effect.forEach(names, (name) => ids(name, "mail"))).toEqual(
          names.map((name) => (name === to ? [id] : []))
        )
      }
      // As after kill -9 before the first copy.
      yield* query("mail", "update nightshift.job set queue = 'mail>mail>mail-2'")
      const doctor = yield* call("doctor")
      expect(doctor.stdout.replaceAll(/\s+/g, " ")).toContain(
        "1 job of queue mail waits for the end of an interrupted move from mail to mail-2."
      )
      const before = text()
      expect((yield* call("move", "mail", "--to", "mail")).code).toBe(0)
      expect([yield* ids("mail", "mail"), text()]).toEqual([[id], before])
      expect(yield* query("mail", "select paused from nightshift.queue where name = 'mail'")).toEqual([
        { paused: false }
      ])
    })
  )

  it.scopedLive("a job does not end in time: nothing moves, or it is returned", () =>
    Effect.gen(function* () {
      const { call, cell, ids, query } = yield* made
      const [main, source] = [yield* cell("main"), yield* cell("mail")]
      // The queue has left main before, and stays paused there.
      const earlier = yield* run(() => main.enqueue(greet, { who: "earlier" }, { delay: "1h" }))
      expect((yield* call("move", "mail", "--to", "mail")).code).toBe(0)
      let runs = 0
      const stuck = greet.handle(async (_, { signal }) => {
        runs += 1
        await new Promise((resolve) => signal.addEventListener("abort", resolve))
      })
      const { id } = yield* run(() => source.enqueue(greet, { who: "a" }))
      yield* run(() => worker(source, { handlers: [stuck] }))
      const running = "select from nightshift.job where status = 'running'"
      yield* Effect.repeat(query("mail", running), { until: (rows) => rows.length === 1 })
      const late = yield* call("move", "mail", "--to", "mail-2", "--deadline", "1s")
      expect(late).toMatchObject({ code: 1, stderr: expect.stringContaining(`did not end within 1s: greet ${id}.`) })
      const paused = "select paused from nightshift.queue where name = 'mail'"
      expect([yield* query("main", paused), yield* query("mail", paused)]).toEqual([
        [{ paused: true }],
        [{ paused: false }]
      ])
      const moved = yield* call("move", "mail", "--to", "mail-2", "--deadline", "1s", "--return-running")
      expect(moved).toMatchObject({ code: 0, stderr: "" })
      const both = [earlier.id, id].sort()
      expect([yield* ids("mail", "mail"), yield* ids("mail-2", "mail"), runs]).toEqual([[], both, 1])
    })
  )

  it.scopedLive(
    "the list is a text in the environment: the command stops before the change, and continues after it",
    () =>
      Effect.gen(function* () {
        const { cwd, fleet, ids, text } = yield* made
        const shift = yield* fleet()
        const { id } = yield* run(() => shift.enqueue(greet, { who: "a" }))
        const move = (list: string) =>
          Nightshift.call(["fleet", "move", "mail", "--to", "mail-2"], { cwd, env: { NIGHTSHIFT_FLEET: list } })
        const before = text()
        const stopped = yield* move(before)
        expect(stopped).toMatchObject({ code: 1, stderr: expect.stringContaining(" mail: mail-2\n") })
        expect([yield* ids("mail", "mail"), yield* ids("mail-2", "mail")]).toEqual([[], []])
        expect(yield* ids("mail-2", "mail>mail>mail-2")).toEqual([id])
        expect((yield* move(before.replace("mail: mail\n", "mail: mail-2\n"))).code).toBe(0)
        expect([text(), yield* ids("mail-2", "mail")]).toEqual([before, [id]])
      })
  )
})

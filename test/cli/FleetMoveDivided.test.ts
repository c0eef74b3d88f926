import { writeFileSync } from "node:fs"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { z } from "zod"
import { job, worker, workflow } from "../../src/client/index.js"
import { cellsOf, rendezvous } from "../../src/fleet/Fleet.js"
import * as FleetConfig from "../../src/fleet/FleetConfig.js"
import * as FleetFolder from "../support/FleetFolder.js"

const greet = job("greet", { payload: z.object({ who: z.string() }), queue: "mail" })
const bill = workflow(
  "bill",
  {
    payload: z.object({ id: z.string() }),
    key: ({ id }) => id,
    queue: "bills",
    signals: { approval: z.object({ by: z.string() }) }
  },
  async (_, step) => (await step.waitFor("approval"))?.by
)
const fleet = FleetFolder.make(["main", "mail", "mail-2"], "  other: mail # stays\n")
const paused = "select paused from nightshift.queue where name = 'mail'"
const run = <A>(call: () => Promise<A>) => Effect.promise(call)

describe("nightshift fleet move", () => {
  it.scopedLive("keeps a queue paused that an operator has paused in the old cell", () =>
    Effect.gen(function* () {
      const { call, cell, query } = yield* fleet
      const main = yield* cell("main")
      yield* run(() => main.enqueue(greet, { who: "a" }))
      yield* run(() => main.queues.pause("mail"))
      const moved = yield* call("move", "mail", "--to", "mail-2")
      expect(moved).toMatchObject({ code: 0, stderr: "" })
      expect(moved.stdout).toContain("paused mail in mail-2, because an operator has paused it in main")
      expect(moved.stdout).not.toContain("resumed")
      expect(yield* query("mail-2", paused)).toEqual([{ paused: true }])
      // Once it is resumed where it is, the pause that it had elsewhere ends with the next move.
      expect(yield* call("move", "mail", "--to", "main")).toMatchObject({ code: 0, stderr: "" })
      yield* run(() => main.queues.resume("mail"))
      expect(yield* call("move", "mail", "--to", "mail-2")).toMatchObject({ code: 0, stderr: "" })
      expect(yield* query("mail-2", paused)).toEqual([{ paused: false }])
    })
  )

  it.scopedLive("says that jobs do not start because their queue stays paused", () =>
    Effect.gen(function* () {
      const { call, cell, query } = yield* fleet
      const main = yield* cell("main")
      yield* run(() => main.enqueue(greet, { who: "a" }))
      yield* run(() => main.queues.change("mail", { maxWorkers: 3 }))
      expect(yield* call("move", "mail", "--to", "mail-2")).toMatchObject({ code: 0, stderr: "" })
      // As after its retention: nothing tells that the move has paused the queue in main.
      yield* query("main", "delete from nightshift.audit")
      const back = yield* call("move", "mail", "--to", "main")
      expect(yield* query("main", paused)).toEqual([{ paused: true }])
      expect(back).toMatchObject({ code: 0, stderr: "" })
      expect(back.stdout).toContain(
        "mail is paused in main, so its jobs do not start. If that is not intended: nightshift queues resume mail --cell main"
      )
    })
  )

  it.scopedLive("says which rate to set in the cells that keep a queue", () =>
    Effect.gen(function* () {
      const { call, cell } = yield* fleet
      const main = yield* cell("main")
      yield* run(() => main.enqueue(greet, { who: "a" }, { delay: "1h" }))
      yield* run(() => main.queues.change("mail", { rate: "10/s" }))
      const set = (stdout: string) => stdout.split("\n").filter((line) => line.startsWith("set the rate"))
      const divided = yield* call("move", "mail", "--to", "main,mail")
      expect(set(divided.stdout)).toEqual(["set the rate of mail to 5 per 1s in main: a rate limit holds in each cell"])
      yield* run(() => main.queues.change("mail", { rate: "5/s" }))
      const whole = yield* call("move", "mail", "--to", "main")
      expect(set(whole.stdout)).toEqual(["set the rate of mail to 10 per 1s in main: a rate limit holds in each cell"])
    })
  )

  it.scopedLive("continues a move to one cell as a division: each job goes to the cell of its key", () =>
    Effect.gen(function* () {
      const { call, cell, file, ids, query } = yield* fleet
      const main = yield* cell("main")
      const keys = Array.from({ length: 20 }, (_, number) => `customer:${number}`)
      const jobs = yield* run(() =>
        Promise.all(keys.map((key) => main.enqueue(greet, { who: key }, { key, delay: "1h" })))
      )
      // As after kill -9 when half of the jobs had left.
      yield* query("main", "update nightshift.job set queue = 'mail>main>mail'")
      const half = jobs.slice(0, 10).map(({ id }) => id)
      const [row] = yield* query(
        "main",
        "with gone as (delete from nightshift.job where id = any($1::uuid[]) returning *) select json_agg(gone)::text as rows from gone",
        [half]
      )
      const store =
        "insert into nightshift.job select r.* from json_populate_recordset(null::nightshift.job, $1::json) r"
      yield* query("mail", store, [row?.rows])
      expect(yield* call("move", "mail", "--to", "mail,mail-2")).toMatchObject({ code: 0, stderr: "" })
      const list = yield* FleetConfig.existing(file)
      const cells = cellsOf(list, "mail")
      expect(cells.map(({ name }) => name)).toEqual(["mail", "mail-2"])
      for (const each of cells) {
        const own = jobs.filter((_, place) => rendezvous(cells, keys[place] ?? "") === each)
        expect(yield* ids(each.name, "mail")).toEqual(own.map(({ id }) => id).sort())
      }
    })
  )

  it.scopedLive("sends signals on that come to a cell which keeps the queue without the execution", () =>
    Effect.gen(function* () {
      const { call, cell, ids, query } = yield* fleet
      const [main, mail] = [yield* cell("main"), yield* cell("mail")]
      const names = Array.from({ length: 12 }, (_, number) => `${number}`)
      yield* run(() => Promise.all(names.map((id) => main.start(bill, { id }))))
      expect(yield* call("move", "bills", "--to", "main,mail")).toMatchObject({ code: 0, stderr: "" })
      const [moved] = yield* ids("mail", "bills")
      const [row] = yield* query("mail", "select dedupe_key from nightshift.job where id = $1", [moved])
      const id = String(row?.dedupe_key).replace("bill/", "")
      yield* run(() => main.execution(bill, id).signal("approval", { by: "ada" }))
      const again = yield* call("move", "bills")
      expect(again.stdout).toContain("sent 1 signal that came to main on to mail")
      yield* run(() => worker(mail, { handlers: [bill], queues: { bills: 5 } }))
      expect(yield* run(() => mail.execution(bill, id).result({ timeout: "30s" }))).toBe("ada")
    })
  )
})

describe("nightshift fleet move refuses", () => {
  it.scopedLive("cells that are the same database, and keeps the jobs", () =>
    Effect.gen(function* () {
      const { call, cell, file, ids, text, url } = yield* fleet
      const main = yield* cell("main")
      const { id } = yield* run(() => main.enqueue(greet, { who: "a" }))
      const twin = new URL(url("main"))
      twin.searchParams.set("application_name", "twin")
      writeFileSync(file, text().replace(url("mail-2"), twin.href))
      for (const to of ["mail-2", "main"])
        expect(yield* call("move", "mail", "--to", to)).toMatchObject({
          code: 1,
          stderr: expect.stringContaining("Cells main and mail-2 are the same database and schema.")
        })
      expect(yield* ids("main", "mail")).toEqual([id])
    })
  )

  it.scopedLive("webhooks, whose endpoints stay", () =>
    Effect.gen(function* () {
      const { call, cell, ids } = yield* fleet
      const main = yield* cell("main")
      yield* run(() => main.endpoints.create({ url: "https://customer.example.org/", customer: "acme" }))
      const [sent] = yield* run(() => main.endpoints.send({ customer: "acme", type: "order.paid" }, { order: "A-17" }))
      expect(yield* call("move", "webhooks", "--to", "mail")).toMatchObject({
        code: 1,
        stderr: expect.stringContaining("1 job of queue webhooks sends a webhook to endpoints, which stay in main.")
      })
      expect(yield* call("move", "webhooks", "--to", "main,mail,mail-2")).toMatchObject({ code: 0, stderr: "" })
      expect(yield* ids("main", "webhooks")).toEqual([sent?.id])
    })
  )
})

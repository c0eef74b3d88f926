import { describe, expect, expectTypeOf, it } from "vitest"
import { z } from "zod"
import { connect, type ExecutionFilter, type JobFilter, job, type Shift, workflow } from "../../src/client/index.js"
import type { JobFilter as StoredFilter } from "../../src/queue/search/JobFilter.js"
import { testShift } from "../../src/testing/index.js"
import { useDatabase } from "./ClientDatabase.js"

const database = useDatabase()

const mail = job("mail", { payload: z.object({ to: z.string(), at: z.string().optional() }), queue: "mail" })
const print = job("print", { payload: z.object({ page: z.number() }), queue: "paper" })
const order = workflow("order", { payload: z.object({ id: z.string() }), key: ({ id }) => id }, async () => "shipped")
const handlers = [mail.handle(() => "sent"), print.handle(() => "printed"), order]

/** The same program on PostgreSQL and in a test. Each test has its own kinds of payloads, because the database is shared. */
const stores: ReadonlyArray<readonly [string, () => Promise<Shift>]> = [
  ["on PostgreSQL", () => connect(database.url(), { log: false })],
  ["in a test", () => testShift({ handlers, startAt: new Date() })]
]

const idsOf = async (jobs: AsyncIterable<{ readonly id: string }>) => {
  const ids: Array<string> = []
  for await (const { id } of jobs) ids.push(id)
  return ids
}

describe.each(stores)("jobs found by a program %s", (_, open) => {
  it("are read in pages while it iterates, newest first", async () => {
    await using shift = await open()
    const pages = Array.from({ length: 330 }, (_, page) => ({ page }))
    const stored = await shift.enqueueMany(print, pages, { delay: "1d", queue: "many" })
    await shift.enqueue(mail, { to: "ada" }, { delay: "1d" })
    const newest = stored.map(({ id }) => id).reverse()
    const list = shift.jobs.list({ queue: "many" })
    expect(await idsOf(list)).toEqual(newest)
    expect(await idsOf(list)).toEqual(newest)
    expect(await idsOf(shift.jobs.list({ queue: "many" }, { limit: 120 }))).toEqual(newest.slice(0, 120))
    expect(await idsOf(shift.jobs.list({ queue: "many" }, { limit: 3, order: "asc" }))).toEqual(
      newest.toReversed().slice(0, 3)
    )
    expect(await shift.jobs.list({ queue: "none" }).toArray()).toEqual([])
    for await (const { id } of list) {
      expect(id).toBe(newest[0])
      break
    }
  })

  it("are read one page at a time, in any order", async () => {
    await using shift = await open()
    const priorities = [3, 1, 2, 1]
    for (const [page, priority] of priorities.entries()) {
      await shift.enqueue(print, { page }, { delay: "1d", queue: "few", priority })
    }
    const list = shift.jobs.list({ queue: "few" }, { limit: 3, sort: "priority", order: "asc" })
    const first = await list.page()
    expect(first.items.map(({ priority }) => priority)).toEqual([1, 1, 2])
    const second = await list.page(first.next)
    expect(second).toMatchObject({ items: [{ priority: 3, payload: { page: 0 } }], next: undefined })
    expect((await shift.jobs.list({ queue: "few" }).page()).items).toHaveLength(4)
    await expect(list.page("no cursor")).rejects.toMatchObject({ code: "INVALID_OPTION", option: "cursor" })
  })

  it("match every field of the filter, and are counted", async () => {
    await using shift = await open()
    const queue = "filtered"
    const when = new Date("2030-01-01T00:00:00Z")
    const ada = await shift.enqueue(
      mail,
      { to: "ada", at: when.toISOString() },
      { delay: "1d", queue, dedupe: "letter" }
    )
    const bob = await shift.enqueue(mail, { to: "bob" }, { delay: "1d", queue, key: "k-1" })
    await shift.cancel(bob.id)
    const { createdAt } = await shift.job(ada.id)
    const { id: batch } = await shift.batches.create((add) => add(print, { page: 1 }, { delay: "1d", queue }))
    const found = async (filter: JobFilter) => (await shift.jobs.list(filter).toArray()).map(({ payload }) => payload)
    const cases: ReadonlyArray<readonly [JobFilter, number]> = [
      [{ queue }, 3],
      [{ queue: [queue, "other"], kind: "mail" }, 2],
      [{ queue, kind: ["mail", "print"], state: ["scheduled", "cancelled"] }, 3],
      [{ queue, state: "cancelled", reason: "cancelled" }, 1],
      [{ queue, payload: { to: "ada" } }, 1],
      [{ queue, payload: { at: when } }, 1],
      [{ queue, payload: Object.assign(Object.create({ toJSON: Object.prototype.valueOf }), { to: "ada" }) }, 1],
      [{ queue, dedupe: "letter" }, 1],
      [{ queue, search: "k-1" }, 1],
      [{ queue, search: "" }, 3],
      [{ queue, payload: {} }, 3],
      [{ queue, search: ada.id.slice(0, 30), kind: "mail" }, 1],
      [{ queue, batch }, 1],
      [{ queue, since: createdAt }, 3],
      [{ queue, until: createdAt.toISOString() }, 0],
      [{ queue, since: createdAt.getTime() + 86_400_000 }, 0],
      [{ queue, text: "refused" }, 0],
      [{ queue, kind: undefined }, 3]
    ]
    for (const [filter, count] of cases) {
      expect(await found(filter), JSON.stringify(filter)).toHaveLength(count)
      expect(await shift.jobs.count(filter), JSON.stringify(filter)).toBe(count)
    }
    expect(await found({ queue, state: "cancelled" })).toEqual([{ to: "bob" }])
    const [view] = await shift.jobs.list({ dedupe: "letter" }).toArray()
    expect(view).toEqual(await shift.job(ada.id))
  })
})

describe.each(stores)("lists of a program %s", (_, open) => {
  it("have executions, by workflow, state and prefix", async () => {
    await using shift = await open()
    for (const id of ["A-1", "A-2", "B-1"]) await shift.start(order, { id }, { delay: "1d" })
    await shift.workflows.cancel("order/A-1", { now: true })
    const keys = async (filter: ExecutionFilter) =>
      (await shift.workflows.list(filter).toArray()).map(({ execution }) => execution)
    expect(await keys({ workflow: "order" })).toEqual(["order/B-1", "order/A-2", "order/A-1"])
    expect(await keys({ prefix: "order/A-", state: "scheduled" })).toEqual(["order/A-2"])
    expect(await shift.workflows.count({ workflow: "order" })).toBe(3)
    expect(await shift.workflows.count({ state: "cancelled", prefix: "order/" })).toBe(1)
    expect(await shift.workflows.count({ workflow: "none" })).toBe(0)
    const list = shift.workflows.list({ workflow: "order" }, { limit: 2 })
    const first = await list.page()
    expect(first.items).toMatchObject([
      { execution: "order/B-1", workflow: "order", state: "scheduled", payload: { id: "B-1" }, waits: [] },
      { execution: "order/A-2", createdAt: expect.any(Date), finishedAt: undefined }
    ])
    expect((await list.page(first.next)).items).toMatchObject([{ execution: "order/A-1", state: "cancelled" }])
    await expect(list.page("x")).rejects.toMatchObject({ code: "INVALID_OPTION", option: "cursor" })
    expect(() => shift.workflows.list({ workflows: "order" } as ExecutionFilter)).toThrow("Did you mean workflow?")
    expect(() => shift.workflows.list({ state: "dead" as "done" })).toThrow(/^filter\.state must be one of scheduled, /)
  })

  it("have batches, newest first", async () => {
    await using shift = await open()
    const made: Array<string> = []
    for (const name of ["first", "second", "third"]) {
      const { id } = await shift.batches.create((add) => add(print, { page: 1 }, { delay: "1d" }), { name })
      made.unshift(id)
    }
    const list = shift.batches.list({ limit: 3 })
    expect(await idsOf(list)).toEqual(made)
    const { items, next } = await shift.batches.list({ limit: 1 }).page()
    expect(items).toMatchObject([{ name: "third", total: 1, counts: { unfinished: 1 } }])
    expect((await list.page(next)).items[0]).toMatchObject({ name: "second" })
    expect(() => shift.batches.list({ name: "x" } as object)).toThrow(/^name is not an option of list/)
  })
})

describe.each(stores)("a batch %s", (_, open) => {
  it("has the jobs that an asynchronous function adds", async () => {
    await using shift = await open()
    const batch = await shift.batches.create(async (add) => {
      for await (const page of [Promise.resolve(1), Promise.resolve(2)]) add(print, { page }, { delay: "1d" })
    })
    expect(batch.total).toBe(2)
    await shift.batches.add(batch.id, async (add) => add(print, await Promise.resolve({ page: 3 }), { delay: "1d" }))
    expect((await shift.batches.get(batch.id)).total).toBe(3)
  })
})

describe.each(stores)("actions of a program on many jobs %s", (_, open) => {
  it("show what they would do, and resolve when they have ended", async () => {
    await using shift = await open()
    const queue = "acted"
    const stored = await shift.enqueueMany(mail, [{ to: "ada" }, { to: "bob" }, { to: "eve" }], { delay: "1d", queue })
    const preview = await shift.jobs.cancel({ queue }, { dryRun: true })
    expect(preview).toMatchObject({ matched: { count: 3, exact: true }, undoable: true })
    expect(preview.sample.map(({ id }) => id)).toEqual(stored.map(({ id }) => id).reverse())
    expect(await shift.jobs.count({ queue, state: "scheduled" })).toBe(3)

    const cancelled = await shift.jobs.cancel({ queue, payload: { to: "eve" } }, { reason: "they left" })
    expect(cancelled).toMatchObject({
      action: "cancel",
      status: "done",
      total: { count: 1, exact: true },
      done: 1,
      skipped: {},
      failed: 0,
      who: expect.stringMatching(/^client:./),
      reason: "they left",
      filter: { queue, payload: { to: "eve" }, state: ["scheduled", "retrying", "pending", "running"] },
      createdAt: expect.any(Date),
      finishedAt: expect.any(Date)
    })
    expect(await shift.jobs.requeue({ queue })).toMatchObject({ done: 0, filter: { queue, state: ["dead"] } })
    expect(await shift.jobs.requeue({ queue, state: "cancelled" })).toMatchObject({ done: 1 })
    expect(await shift.jobs.runNow({ queue, payload: { to: "ada" } })).toMatchObject({ action: "run-now", done: 1 })
    expect(await shift.jobs.count({ queue, state: "pending" })).toBe(2)
    expect(await shift.jobs.delete({ queue, until: new Date(Date.now() + 86_400_000) })).toMatchObject({ done: 3 })
    expect(await shift.jobs.count({ queue })).toBe(0)
  })

  it("cover more jobs than fit into a batch", async () => {
    await using shift = await open()
    const queue = "bulky"
    const pages = Array.from({ length: 700 }, (_, page) => ({ page }))
    for (const _ of [1, 2]) await shift.enqueueMany(print, pages, { delay: "1d", queue })
    expect(await shift.jobs.delete({ queue })).toMatchObject({ done: 1_400, total: { count: 1_400, exact: true } })
    expect(await shift.jobs.count({ queue })).toBe(0)
  })
})

describe("an action of a program on many jobs", () => {
  it("is refused if it could change more than was meant", async () => {
    await using shift = await testShift({ handlers })
    const { id } = await shift.enqueue(mail, { to: "ada" }, { delay: "1d" })
    const cases: ReadonlyArray<readonly [Promise<unknown>, string, RegExp]> = [
      [shift.jobs.delete({}), "filter", /^filter must not be empty; to select all jobs, list the states\.$/],
      [
        shift.jobs.delete({ queue: undefined }),
        "filter.queue",
        /^filter\.queue is undefined, so jobs\.delete would not filter/
      ],
      [shift.jobs.delete({ state: "scheduled", kind: undefined }), "filter.kind", /^filter\.kind is undefined/],
      [
        shift.jobs.delete({ payload: { customer: undefined } }),
        "filter.payload.customer",
        /^filter\.payload\.customer is undefined, so the filter would not compare it\. Give it a value or leave it out\.$/
      ],
      [
        shift.jobs.delete({ payload: {} }),
        "filter.payload",
        /^filter\.payload must not be empty; give it a value or leave it out\.$/
      ],
      [shift.jobs.delete({ queue: "mail", search: "" }), "filter.search", /^filter\.search must not be empty; give/],
      [
        shift.jobs.requeue({ state: "scheduled" }),
        "filter.state",
        /requeue needs jobs that are done, dead or cancelled\.$/
      ],
      [
        shift.jobs.cancel(id as never),
        "filter",
        /To act on one job, use shift\.cancel\(id\) or shift\.requeue\(id\)\.$/
      ],
      [shift.jobs.cancel(undefined as never), "filter", /got undefined\.$/],
      [
        shift.jobs.cancel({ queue: "mail" }, { dryRun: "yes" as never }),
        "dryRun",
        /^dryRun must be true or false, got "yes"\.$/
      ],
      [shift.jobs.cancel({ queue: "mail" }, { dryrun: true } as object), "dryrun", /Did you mean dryRun\?$/],
      [shift.jobs.cancel({ queue: "mail" }, { reason: 7 as never }), "reason", /^reason must be a string, got 7\.$/]
    ]
    for (const [acted, option, message] of cases)
      await expect(acted).rejects.toMatchObject({
        code: "INVALID_OPTION",
        option,
        message: expect.stringMatching(message)
      })
    expect((await shift.job(id)).state).toBe("scheduled")
  })

  it("rejects if it did not reach the last job", async () => {
    await using shift = await connect(database.url(), { log: false })
    await shift.enqueue(mail, { to: "ada" }, { delay: "1d", queue: "stopped" })
    await database.pool().query(`
      create function end_early() returns trigger language plpgsql as $$ begin
        new.status = new.reason;
        new.finished_at = new.created_at;
        new.error = case new.reason when 'failed' then 'The disk is full.' end;
        return new;
      end $$;
      create trigger end_early before insert on nightshift.operation for each row
        when (new.reason in ('failed', 'cancelled')) execute function end_early()`)
    const stopped = (reason: string) => shift.jobs.cancel({ queue: "stopped" }, { reason })
    await expect(stopped("failed")).rejects.toMatchObject({
      code: "OPERATION_STOPPED",
      done: 0,
      skipped: {},
      message: expect.stringMatching(
        /^Operation \S+ \(cancel\) failed after it had changed 0 jobs\. The disk is full\.$/
      )
    })
    await expect(stopped("cancelled")).rejects.toThrow(/was stopped by an operator after it had changed 0 jobs\.$/)
  })
})

describe("a filter of jobs", () => {
  it("has the fields of the HTTP API", () => {
    expectTypeOf<keyof JobFilter>().toEqualTypeOf<keyof StoredFilter>()
  })

  it("is refused if it is invalid", async () => {
    await using shift = await testShift({ handlers })
    const refused = (filter: unknown) => {
      try {
        shift.jobs.list(filter as JobFilter)
        return undefined
      } catch (error) {
        return error
      }
    }
    const cases: ReadonlyArray<readonly [unknown, string, RegExp]> = [
      [
        { stat: "dead" },
        "filter.stat",
        /^filter\.stat is not a field of this filter: use .*queue.* Did you mean state\?$/
      ],
      [{ state: "broken" }, "filter.state", /^filter\.state must be one of scheduled, .*, or a list of them\.$/],
      [{ state: [] }, "filter.state", /^filter\.state must be one of/],
      [{ queue: 7 }, "filter.queue", /^filter\.queue must be a string or a list of strings\.$/],
      [
        { since: "yesterday" },
        "filter.since",
        /^filter\.since must be a Date, an ISO 8601 string or .*, got "yesterday"\.$/
      ],
      [{ until: new Date("soon") }, "filter.until", /got an invalid Date\.$/],
      [{ until: Number.NaN }, "filter.until", /^filter\.until must be between the years 1970 and 9999\.$/],
      [{ payload: 1n }, "filter.payload", /^filter\.payload cannot be encoded as JSON/],
      [{ payload: { a: { b: undefined } } }, "filter.payload.a.b", /^filter\.payload\.a\.b is undefined, so/],
      [{ payload: { a: [1, () => 1] } }, "filter.payload.a[1]", /^filter\.payload\.a\[1\] is a function, so/],
      [{ payload: { a: Symbol("s") } }, "filter.payload.a", /^filter\.payload\.a is Symbol\(s\), so/],
      [{ payload: { toJSON: () => ({ a: undefined }) } }, "filter.payload.a", /^filter\.payload\.a is undefined/],
      [{ payload: [new Array(1)] }, "filter.payload[0][0]", /^filter\.payload\[0\]\[0\] is undefined/],
      [{ batch: "b" }, "filter.batch", /^filter\.batch must be a batch id\.$/],
      ["0190f5fe", "filter", /^The filter must be an object like \{ queue: "mail" \}, got "0190f5fe"\.$/],
      [[], "filter", /got an array\.$/],
      [null, "filter", /got null\.$/]
    ]
    for (const [filter, option, message] of cases)
      expect(refused(filter), String(message)).toMatchObject({
        code: "INVALID_OPTION",
        option,
        message: expect.stringMatching(message)
      })
    await expect(shift.jobs.count({ payload: { a: undefined } })).rejects.toThrow("filter.payload.a is undefined")
    await expect(shift.jobs.count({ kin: "mail" } as JobFilter)).rejects.toThrow("Did you mean kind?")
    expect(() => shift.jobs.list({}, { limit: 0 })).toThrow("limit must be a whole number of 1 or more, got 0.")
    expect(() => shift.jobs.list({}, { sort: "size" as "kind" })).toThrow(
      /^sort must be one of created, .*, got "size"\.$/
    )
    expect(() => shift.jobs.list({}, { order: "up" as "asc" })).toThrow('order must be one of asc, desc, got "up".')
    expect(() => shift.jobs.list({}, { cursor: "x" } as object)).toThrow(/^cursor is not an option of list/)
  })
})

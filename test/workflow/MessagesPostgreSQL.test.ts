import { afterAll, beforeAll, expect, it } from "vitest"
import { z } from "zod"
import { connect, type Shift, worker, workflow } from "../../src/client/index.js"
import { useDatabase } from "../client/ClientDatabase.js"

// Messages and asks on PostgreSQL: concurrent senders, transactions and lost connections.

const database = useDatabase()
let shift: Shift
beforeAll(async () => {
  shift = await connect(database.url(), { log: false })
})
afterAll(() => shift.close())

const settings = { payload: z.object({ id: z.string() }), key: ({ id }: { id: string }) => id, queue: "chats" }
const patience = { timeout: "60s" } as const
const patienceOfPoll = { timeout: 60_000 }

const chat = workflow("chat", settings, async (_, step) => {
  const taken: Array<unknown> = []
  for (let message = await step.next("m"); message !== "end"; message = await step.next("m")) taken.push(message)
  return taken
})

/** Ends all connections of Nightshift. */
const cut = () =>
  database
    .pool()
    .query(
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and application_name like 'nightshift%'"
    )

const isSuspended = (execution: string) => async () => {
  const query = "select woken > 0 and lease is null as suspended from nightshift.job where dedupe_key = $1"
  return (await database.pool().query(query, [execution])).rows[0]?.suspended
}

it("no message is lost or repeated, and each sender's stay in order, while the execution suspends and continues", async () => {
  await using _ = await worker(shift, { handlers: [chat], queues: { chats: 4 } })
  const run = shift.execution(chat, "busy")
  const send = async (sender: string) => {
    for (let n = 0; n < 15; n += 1) await run.signal("m", `${sender}${n}`)
  }
  await Promise.all([send("a"), send("b"), shift.start(chat, { id: "busy" }), send("c")])
  await run.signal("m", "end")
  const taken = (await run.result(patience)) as ReadonlyArray<string>
  expect(taken.length).toBe(45)
  for (const sender of ["a", "b", "c"])
    expect(taken.filter((each) => each.startsWith(sender))).toEqual(
      Array.from({ length: 15 }, (_, n) => `${sender}${n}`)
    )
})

it("messages of open transactions are numbered in the order of their commits, and wake the execution then", async () => {
  const [first, second] = [await database.pool().connect(), await database.pool().connect()]
  const signal = "select nightshift.signal('chat/open', 'm', $1::jsonb) as outcome"
  await first.query("begin")
  await first.query(signal, ['"rolled back"'])
  const waiting = second.query(signal, ['"second"'])
  await using _ = await worker(shift, { handlers: [chat], queues: { chats: 4 } })
  const run = await shift.start(chat, { id: "open" })
  await first.query("rollback")
  expect((await waiting).rows).toEqual([{ outcome: "completed" }])
  await expect.poll(isSuspended("chat/open"), patienceOfPoll).toBe(true)
  await first.query("begin")
  await first.query(signal, ['"third"'])
  const last = second.query(signal, ['"end"'])
  await first.query("commit")
  expect((await last).rows).toEqual([{ outcome: "appended" }])
  first.release()
  second.release()
  expect(await run.result(patience)).toEqual(["second", "third"])
})

it("a message that is stored before the start and commits after the first suspension wakes the execution", async () => {
  const client = await database.pool().connect()
  await client.query("begin")
  await client.query("select nightshift.signal('chat/early', 'm', '\"early\"', 'id-1')")
  await using _ = await worker(shift, { handlers: [chat], queues: { chats: 4 } })
  const run = await shift.start(chat, { id: "early" })
  await expect
    .poll(async () => {
      const waits = "select count(*)::int as n from pg_stat_activity where wait_event_type = 'Lock'"
      return (await database.pool().query(waits)).rows[0].n
    }, patienceOfPoll)
    .toBeGreaterThan(0)
  await client.query("commit")
  const again = "select nightshift.signal('chat/early', 'm', '\"early\"', 'id-1') as outcome"
  expect((await client.query(again)).rows).toEqual([{ outcome: "repeated" }])
  client.release()
  await run.signal("m", "end")
  expect(await run.result(patience)).toEqual(["early"])
})

it("messages are taken once, and asks answered once, while all connections are cut again and again", async () => {
  const cart = workflow("cart", settings, async (_, step) => {
    const items: Array<unknown> = []
    step.answer("add", (item) => items.push(item))
    const messages: Array<unknown> = []
    for (let message = await step.next("m"); message !== "end"; message = await step.next("m")) messages.push(message)
    return { items, messages }
  })
  await using _ = await worker(shift, { handlers: [cart], queues: { chats: 4 } })
  const run = await shift.start(cart, { id: "cut" })
  /** Repeats a call that the cut may have hit. Its id makes that safe. */
  const surely = async <A>(call: () => Promise<A>): Promise<A> => {
    for (;;) {
      try {
        return await call()
      } catch (error) {
        if (!["DATABASE_UNAVAILABLE", "ASK_TIMED_OUT"].includes((error as { code: string }).code)) throw error
      }
    }
  }
  for (let round = 0; round < 6; round += 1) {
    const sent = surely(() => run.signal("m", round, { id: `m${round}` }))
    const asked = surely(() => run.ask("add", round, { id: `a${round}`, timeout: "2s" }))
    await cut()
    expect(await asked).toBe(round + 1)
    await sent
  }
  await surely(() => run.signal("m", "end", { id: "end" }))
  expect(await surely(() => run.result(patience))).toEqual({ items: [0, 1, 2, 3, 4, 5], messages: [0, 1, 2, 3, 4, 5] })
}, 120_000)

it("no message is lost while the execution continues with new journals", async () => {
  const payload = z.object({ id: z.string(), taken: z.array(z.string()).default([]) })
  const endless = workflow(
    "endless",
    { payload, key: ({ id }) => id, queue: "chats" },
    async ({ id, taken }, step): Promise<unknown> => {
      const next = [await step.next<string>("m"), await step.next<string>("m"), await step.next<string>("m")]
      const all = [...taken, ...next]
      return all.length === 36 ? all : step.continueAs({ id, taken: all })
    }
  )
  await using _ = await worker(shift, { handlers: [endless], queues: { chats: 4 } })
  const run = await shift.start(endless, { id: "1" })
  const send = async (sender: string) => {
    for (let n = 0; n < 12; n += 1) await run.signal("m", `${sender}${n}`)
  }
  await Promise.all([send("a"), send("b"), send("c")])
  const taken = (await run.result(patience)) as ReadonlyArray<string>
  for (const sender of ["a", "b", "c"])
    expect(taken.filter((each) => each.startsWith(sender))).toEqual(
      Array.from({ length: 12 }, (_, n) => `${sender}${n}`)
    )
})

it("an ask of another process is answered by a notification, and the values that the code sets are shown", async () => {
  const stage = workflow("stage", settings, async (_, step) => {
    step.answer("stage", async (value) => {
      await step.set("stage", value)
      return "set"
    })
    await step.waitFor("go")
  })
  await using _ = await worker(shift, { handlers: [stage], queues: { chats: 4 } })
  await using other = await connect(database.url(), { log: false, pool: 3 })
  const run = await shift.start(stage, { id: "1" })
  await expect.poll(isSuspended("stage/1"), patienceOfPoll).toBe(true)
  const remote = other.execution(stage, "1")
  const answers = await Promise.all(["a", "b", "c"].map((value) => remote.ask("stage", value)))
  expect(answers).toEqual(["set", "set", "set"])
  expect(["a", "b", "c"]).toContain(await remote.get("stage"))
  await expect(remote.ask("other", 1, { timeout: "50ms" })).rejects.toMatchObject({ code: "ASK_TIMED_OUT" })
  await run.signal("go")
  await run.result(patience)
  await expect(remote.ask("stage", 1)).rejects.toMatchObject({ code: "EXECUTION_ENDED", state: "done" })
})

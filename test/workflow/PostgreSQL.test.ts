import { afterAll, beforeAll, expect, it, vi } from "vitest"
import { z } from "zod"
import { connect, job, type Shift, worker, workflow } from "../../src/client/index.js"
import { useDatabase } from "../client/ClientDatabase.js"
import { scale } from "../support/Scale.js"

// Workflows on PostgreSQL: what virtual time and tables in memory cannot show.

const database = useDatabase()
let shift: Shift
beforeAll(async () => {
  await database.pool().query("create table booking (id text)")
  // Twenty executions at once wait for the connections of one pool, which takes longer than 5 seconds on a busy machine.
  vi.stubEnv("DATABASE_CONNECT_TIMEOUT", "60s")
  shift = await connect(database.url(), { log: false })
})
afterAll(async () => {
  await shift.close()
  vi.unstubAllEnvs()
})

const settings = { payload: z.object({ id: z.string() }), key: (order: { id: string }) => order.id, queue: "orders" }
const patience = { timeout: "60s" } as const

it("a transactional step, its jobs and its record are one transaction: a failed one leaves none of them", async () => {
  const note = job("note", { payload: z.object({ about: z.string() }), queue: "notes" })
  const order = workflow("booked", settings, async ({ id }, step) => {
    await step.runInTransaction(
      "book",
      async ({ attempt, tx }) => {
        await tx.query("insert into booking values ($1)", [id])
        await shift.enqueue(note, { about: id }, { tx })
        if (attempt === 1) throw new Error("again")
      },
      { backoff: "10ms" }
    )
    return step.runInTransaction("read", async ({ tx }) => {
      const { rows } = await tx.query<{ n: number }>("select count(*)::int as n from booking where id = $1", [id])
      return rows[0]?.n
    })
  })
  await using _ = await worker(shift, { handlers: [order] })
  await shift.start(order, { id: "A-17" })
  expect(await shift.execution(order, "A-17").result(patience)).toBe(1)
  expect(await database.count("note")).toBe(1)
  const { steps } = await shift.execution(order, "A-17").status()
  expect(steps.map(({ attempt, kind, name, outcome }) => `${name} ${attempt} ${kind} ${outcome}`)).toEqual([
    "book 1 transaction retrying",
    "book 2 transaction done",
    "read 1 transaction done"
  ])
})

it("an execution started in the caller's transaction exists when that commits", async () => {
  const order = workflow("in tx", settings, async () => "ran")
  await using _ = await worker(shift, { handlers: [order] })
  const client = await database.pool().connect()
  await client.query("begin")
  await shift.start(order, { id: "rolled back" }, { tx: client })
  await client.query("rollback")
  await client.query("begin")
  await shift.start(order, { id: "kept" }, { tx: client })
  await client.query("commit")
  client.release()
  expect(await shift.execution(order, "kept").result(patience)).toBe("ran")
  await expect(shift.execution(order, "rolled back").status()).rejects.toMatchObject({ code: "EXECUTION_NOT_FOUND" })
})

it("no wake-up is lost, whenever a signal arrives: before, while and after the execution suspends", async () => {
  const rounds = scale("WAKE_ROUNDS", { usual: 40, long: 1500 })
  const order = workflow("waits", settings, async (_, step) => {
    await step.run("work", () => new Promise((resolve) => setTimeout(resolve, Math.random() * 6)))
    return step.waitFor("go")
  })
  await using _ = await worker(shift, { handlers: [order], queues: { orders: 20 } })
  const one = async (round: number) => {
    const id = `r${round}`
    const start = async () => {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 6))
      await shift.start(order, { id })
    }
    const signal = async () => {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 20))
      await shift.execution(order, id).signal("go", round)
    }
    await Promise.all([start(), signal()])
    expect(await shift.execution(order, id).result(patience)).toBe(round)
  }
  for (let round = 0; round < rounds; round += 20) {
    await Promise.all(Array.from({ length: Math.min(20, rounds - round) }, (_, index) => one(round + index)))
  }
}, 300_000)

it("a signal notifies the pods of a suspended execution when it is stored, and those of others not at all", async () => {
  const order = workflow("notified", settings, async (_, step) => step.waitFor("go"))
  const client = await database.pool().connect()
  const heard: Array<string | undefined> = []
  client.on("notification", ({ payload }) => heard.push(payload))
  const signalled = async (id: string) => {
    heard.length = 0
    await shift.execution(order, id).signal("go", 1)
    // Notifications that were sent before an answer arrive before it.
    await client.query("select 1")
    return heard
  }
  const isSuspended = async () => {
    const query = "select woken > 0 and lease is null as suspended from nightshift.job where kind = 'notified'"
    return (await client.query(query)).rows[0]?.suspended
  }
  {
    await using _ = await worker(shift, { handlers: [order] })
    await shift.start(order, { id: "sleeps" })
    await expect.poll(isSuspended, { timeout: 60_000 }).toBe(true)
  }
  await client.query("listen nightshift_work")
  expect(await signalled("sleeps")).toEqual([expect.stringMatching(/^orders [0-9a-f]{12}$/)])
  expect(await signalled("has not started")).toEqual([])
  await client.query("unlisten *")
  client.release()
})

it("a parent of many children wakes once, when the last has ended", async () => {
  const count = scale("CHILDREN", { usual: 60, long: 1000 })
  let runs = 0
  const leaf = workflow("leaf", { payload: settings.payload, queue: "orders" }, async ({ id }, step) =>
    step.run("work", () => Number(id))
  )
  const order = workflow("parent", settings, async (_, step) => {
    runs += 1
    const all = await step.all(
      "leaves",
      Array.from({ length: count }, (_, n) => String(n)),
      (id) => leaf({ id })
    )
    return all.reduce<number>((sum, n) => sum + Number(n), 0)
  })
  await using _ = await worker(shift, { handlers: [order, leaf], queues: { orders: 20 } })
  await shift.start(order, { id: "A" })
  expect(await shift.execution(order, "A").result(patience)).toBe((count * (count - 1)) / 2)
  expect(runs).toBe(2)
})

it("a sleeping execution is due at the instant it named", async () => {
  const order = workflow("sleeps", settings, async (_, step) => {
    await step.sleep("short", "300ms")
    return "woke"
  })
  await using _ = await worker(shift, { handlers: [order] })
  await shift.start(order, { id: "A" })
  expect(await shift.execution(order, "A").result(patience)).toBe("woke")
  const { steps } = await shift.execution(order, "A").status()
  expect(Number(steps[0]?.endedAt) - Number(steps[0]?.startedAt)).toBeGreaterThanOrEqual(0)
})

it("a retried execution continues from its failed step, even if recorded steps follow one that was undone", async () => {
  const log: Array<string> = []
  let stock = false
  const order = workflow("retried", settings, async (_, step) => {
    await step.run("charge", ({ idempotencyKey }) => log.push(idempotencyKey), { undo: () => void log.push("refund") })
    await step.runInTransaction("book", async ({ tx }) => {
      await tx.query("insert into booking values ('retried')")
    })
    await step.run("ship", () => (stock ? log.push("ship") : Promise.reject(new Error("no stock"))), { attempts: 1 })
    await step.sleep("after", "200ms")
    return step.run("thank", () => log.push("thank"))
  })
  await using _ = await worker(shift, { handlers: [order] })
  await shift.start(order, { id: "A" })
  await expect(shift.execution(order, "A").result(patience)).rejects.toThrow("no stock")
  stock = true
  await shift.execution(order, "A").retry()
  expect(await shift.execution(order, "A").result(patience)).toBe(5)
  expect(log).toEqual(["retried/A/charge", "refund", "retried/A/charge/after-undo-1", "ship", "thank"])
  const { rows } = await database.pool().query("select count(*)::int as n from booking where id = 'retried'")
  expect(rows[0].n).toBe(1)
})

it("a result that cannot be stored fails its step, and a run that lost its lease records nothing", async () => {
  const order = workflow("refused", settings, async ({ id }, step) => {
    if (id === "large")
      return step.run("large", () => "x".repeat(70_000), { attempts: 1 }).catch((error: Error) => error.message)
    await step.run("late", async () => {
      if (id === "lost") await shift.execution(order, id).cancel({ now: true })
    })
  })
  await using _ = await worker(shift, { handlers: [order], queues: { orders: 1 } })
  await shift.start(order, { id: "lost" })
  // One slot: this execution runs when the run that lost its lease is over.
  await shift.start(order, { id: "large" })
  expect(await shift.execution(order, "large").result(patience)).toContain("65536 bytes")
  expect(await shift.execution(order, "lost").status()).toMatchObject({ state: "cancelled", steps: [] })
})

it("a step is recorded once although the server ended the connection that recorded it", async () => {
  let calls = 0
  const client = await database.pool().connect()
  // The record of this step waits for the lock, and its connection is ended meanwhile. A claim would wait for the lock too.
  const order = workflow("cut", settings, async (_, step) =>
    step.run("pay", async () => {
      await client.query("begin")
      await client.query("lock table nightshift.workflow_step in access exclusive mode")
      calls += 1
      return calls
    })
  )
  await using _ = await worker(shift, { handlers: [order] })
  const until = async (query: string) => {
    for (;;) {
      const { rows } = await database.pool().query<{ pid: number }>(query)
      if (rows[0] !== undefined) return rows[0].pid
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }
  await shift.start(order, { id: "A" })
  const pid = await until(
    `select pid, pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and wait_event_type = 'Lock' and query like '%insert into %workflow_step%'`
  )
  await until(`select ${pid} as pid where not exists (select from pg_stat_activity where pid = ${pid})`)
  await client.query("commit")
  client.release()
  // The connection also carries other statements. Once the step is recorded, the pool knows that the connection has ended.
  await until("select 1 as pid from nightshift.workflow_step where name = 'pay'")
  expect(await shift.execution(order, "A").result(patience)).toBe(1)
  expect((await shift.execution(order, "A").status()).steps).toMatchObject([
    { name: "pay", attempt: 1, outcome: "done" }
  ])
})

it("the concurrency of a step holds over processes, and all executions come through", async () => {
  let running = 0
  let most = 0
  let areTwo: () => void = () => {}
  const two = new Promise<void>((resolve) => {
    areTwo = resolve
  })
  const call = workflow("calls", settings, (_, step) =>
    step.run(
      "call",
      async () => {
        running += 1
        most = Math.max(most, running)
        if (running === 2) areTwo()
        await two
        await new Promise((resolve) => setTimeout(resolve, 2))
        running -= 1
      },
      { concurrency: 2 }
    )
  )
  await using other = await connect(database.url(), { log: false })
  await using _ = await worker(shift, { handlers: [call], queues: { orders: 5 } })
  await using __ = await worker(other, { handlers: [call], queues: { orders: 5 } })
  const runs = await Promise.all(Array.from({ length: 12 }, (_, id) => shift.start(call, { id: `${id}` })))
  await Promise.all(runs.map((run) => run.result(patience)))
  expect(most).toBe(2)
  const { rows } = await database.pool().query("select count(*)::int as n from nightshift.workflow_permit")
  expect(rows).toEqual([{ n: 0 }])
})

it("the last heartbeat of a step is stored before its process stops", async () => {
  const seen: Array<unknown> = []
  let isBegun: () => void = () => {}
  const begun = new Promise<void>((resolve) => {
    isBegun = resolve
  })
  const long = workflow("long", settings, (_, step) =>
    step.run("import", ({ heartbeat, lastHeartbeat, signal }) => {
      seen.push(lastHeartbeat)
      if (lastHeartbeat !== undefined) return "continued"
      for (let page = 1; page <= 100; page += 1) heartbeat({ page })
      isBegun()
      return new Promise((_, reject) => signal.addEventListener("abort", reject))
    })
  )
  const first = await worker(shift, { handlers: [long], grace: "10ms" })
  const run = await shift.start(long, { id: "A" })
  await begun
  await first.stop()
  await using _ = await worker(shift, { handlers: [long] })
  expect(await run.result(patience)).toBe("continued")
  expect(seen).toEqual([undefined, { page: 100 }])
})

it("a stream is read while it is written, each chunk once and in order, and faster than a transaction per chunk", async () => {
  const chunks = 3_000
  const chat = workflow("chat", settings, async (_, step) => {
    const { count } = await step.stream("tokens", async function* () {
      for (let token = 0; token < chunks; token += 1) yield `token ${token}`
    })
    return count
  })
  await using _ = await worker(shift, { handlers: [chat] })
  const run = await shift.start(chat, { id: "streamed" })
  const read: Array<string> = []
  for await (const { value } of run.stream<string>("tokens")) read.push(value)
  expect(read).toEqual(Array.from({ length: chunks }, (_, token) => `token ${token}`))
  expect(await run.result(patience)).toBe(chunks)
  const query = "select count(*)::int as rows from nightshift.workflow_chunk where job_id = $1"
  expect((await database.pool().query(query, [run.id])).rows[0].rows).toBeLessThan(chunks / 10)
}, 60_000)

it("the code gets a result with the same order of keys in its first run and in a replay", async () => {
  const seen: Array<unknown> = []
  const order = workflow("keys", settings, async (_, step) => {
    const bed = [{ size: 3, by: 4, é: 5 }]
    // Their order as UTF-16 is not that as bytes.
    const rare = { "\u{10000}": 6, "\ue000a": 7 }
    const stock = await step.run("count", () => ({ table: 1, desk: 2, bed, zero: -0, ...rare }))
    const zero = await step.run("zero", () => -0)
    seen.push([JSON.stringify(stock), 1 / zero])
    await step.sleep("nap", "1s")
  })
  await using _ = await worker(shift, { handlers: [order] })
  const run = await shift.start(order, { id: "A" })
  await run.result(patience)
  const json = '{"bed":[{"by":4,"é":5,"size":3}],"desk":2,"zero":0,"\ue000a":7,"\u{10000}":6,"table":1}'
  expect(seen).toEqual([
    [json, Number.POSITIVE_INFINITY],
    [json, Number.POSITIVE_INFINITY]
  ])
})

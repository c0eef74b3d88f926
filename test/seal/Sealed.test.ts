import pg from "pg"
import { describe, expect, it, vi } from "vitest"
import { z } from "zod"
import { event, job, on, workflow } from "../../src/client/index.js"
import { seal } from "../../src/codec/index.js"
import { testShift } from "../../src/testing/index.js"
import { isLong } from "../support/Scale.js"
import { testCodec, testKey } from "../support/TestCodec.js"
import { patience, secret, useSealedDatabase } from "./SealedDatabase.js"

// Sealed values in PostgreSQL, as programs with promises use them.

const { closing, database, open, run, stored, until } = useSealedDatabase()

/** Everything in all tables, as text. */
const dump = async (): Promise<string> => {
  const { rows } = await database
    .pool()
    .query<{ name: string }>(
      "select quote_ident(table_name) as name from information_schema.tables where table_schema = 'nightshift'"
    )
  const texts = await Promise.all(
    rows.map(async ({ name }) => {
      const found = await database.pool().query<{ row: string }>(`select t::text as row from nightshift.${name} t`)
      return found.rows.map(({ row }) => `${name} ${row}`)
    })
  )
  return texts.flat().join("\n")
}

describe("with a codec", () => {
  it("nothing of what passes through jobs, events and workflows is in any table in plain text", async () => {
    const shift = await open(testCodec("k1"))
    const note = job("dump-note", {
      payload: secret,
      attempts: 1,
      onDead: () => clean.followUp({ text: "PLAINTEXT-follow-up" })
    })
    const clean = job("dump-clean", { payload: secret })
    const paid = event("dump-paid", secret)
    const seen: Array<string> = []
    const kinds = [
      note.handle(async ({ text }, { progress }) => {
        await progress({ text: "PLAINTEXT-progress" })
        if (text === "PLAINTEXT-fails") throw new Error("no")
        return { text: "PLAINTEXT-result" }
      }),
      clean.handle(({ text }) => void seen.push(text)),
      on(paid, { as: "dump-receipt" }, ({ text }) => void seen.push(text)),
      on(paid, { as: "dump-window", debounce: "10ms" }, (all) => void seen.push(...all.map(({ text }) => `w ${text}`)))
    ]
    const child = workflow(
      "dump-child",
      { payload: z.object({ id: z.string(), text: z.string() }), key: ({ id }) => id },
      async ({ text }) => ({ text: `${text} PLAINTEXT-child-result` })
    )
    const parent = workflow(
      "dump-parent",
      { payload: z.object({ id: z.string(), text: z.string() }), key: ({ id }) => id },
      async ({ text }, step) => {
        seen.push(text)
        const first = await step.run("first", () => ({ text: "PLAINTEXT-step" }))
        await step.set("stage", { text: "PLAINTEXT-set" })
        await step.stream("words", async function* () {
          yield "PLAINTEXT-chunk"
          return { text: "PLAINTEXT-stream" }
        })
        const signal = await step.waitFor<{ text: string }>("go", { timeout: "1h" })
        const children = await step.all("children", ["PLAINTEXT-child"], (text) => child({ id: "C", text }))
        return { text: `PLAINTEXT-end ${first.text} ${signal?.text} ${JSON.stringify(children)}` }
      }
    )
    await run(shift, ...kinds, child, parent)

    const { id } = await shift.enqueue(note, { text: "PLAINTEXT-payload" })
    const failing = await shift.enqueue(note, { text: "PLAINTEXT-fails" })
    await shift.enqueueMany(note, [{ text: "PLAINTEXT-many" }, { text: "PLAINTEXT-many" }])
    await shift.publish(paid, { text: "PLAINTEXT-event" })
    const execution = await shift.start(parent, { id: "A", text: "PLAINTEXT-input" })
    await execution.signal("go", { text: "PLAINTEXT-signal" })

    expect(await shift.result(id, patience)).toEqual({ text: "PLAINTEXT-result" })
    await expect(shift.result(failing.id, patience)).rejects.toThrow("no")
    expect(await execution.result(patience)).toEqual({
      text: 'PLAINTEXT-end PLAINTEXT-step PLAINTEXT-signal [{"text":"PLAINTEXT-child PLAINTEXT-child-result"}]'
    })
    await until("select 1 from nightshift.job where kind = 'dump-clean' and status = 'done'", [])
    await until("select 1 from nightshift.job where kind = 'dump-window' and status = 'done'", [])
    await until("select 1 from nightshift.job where kind = 'dump-receipt' and status = 'done'", [])
    expect([...new Set(seen)].sort()).toEqual([
      "PLAINTEXT-event",
      "PLAINTEXT-follow-up",
      "PLAINTEXT-input",
      "w PLAINTEXT-event"
    ])

    // What programs read is open.
    expect(await shift.job(id)).toMatchObject({
      payload: { text: "PLAINTEXT-payload" },
      progress: { text: "PLAINTEXT-progress" }
    })
    const status = await execution.status()
    expect(status.values).toEqual({ stage: { text: "PLAINTEXT-set" } })
    const chunks: Array<unknown> = []
    for await (const { value } of execution.stream("words")) chunks.push(value)
    expect(chunks).toEqual(["PLAINTEXT-chunk"])

    const tables = await dump()
    expect(tables).toContain("dump-note")
    expect(tables.match(/\$sealed/g)?.length).toBeGreaterThan(20)
    expect(tables.match(/.*PLAINTEXT-.*/)?.[0]).toBeUndefined()
  })

  it("a transaction stores sealed jobs, and a transactional handler a sealed result", async () => {
    const shift = await open(testCodec("k1"))
    const kind = job("tx-kind", { payload: secret })
    const client = new pg.Client({ connectionString: database.url() })
    await client.connect()
    closing.push(() => client.end())
    await client.query("begin")
    const { id } = await shift.enqueue(kind, { text: "inside" }, { tx: client })
    await client.query("commit")
    expect(await stored(id)).toMatchObject({ $sealed: expect.stringMatching(/^k1\./) })
    await run(
      shift,
      kind.handleInTransaction(async ({ text }, { tx, enqueue }) => {
        await tx.query("select 1")
        if (text === "inside") await enqueue(kind, { text: "from the handler" })
        return { text }
      })
    )
    expect(await shift.result(id, patience)).toEqual({ text: "inside" })
    const next = await until("select id from nightshift.job where kind = 'tx-kind' and id <> $1 and status = 'done'", [
      id
    ])
    expect(await shift.result(String(next.id))).toEqual({ text: "from the handler" })
    expect(await stored(String(next.id), "result")).toMatchObject({ $sealed: expect.any(String) })
  })

  it("plain rows and sealed ones run side by side, and SQL may copy sealed values", async () => {
    const shift = await open(testCodec("k1"))
    const kind = job("mixed", { payload: z.object({ text: z.string(), copies: z.array(secret).optional() }) })
    const sealed = await shift.enqueue(kind, { text: "sealed" }, { queue: "held" })
    const { rows } = await database
      .pool()
      .query("select nightshift.enqueue('mixed', $1, force => true) as id", [JSON.stringify({ text: "plain" })])
    const copied = await database.pool().query(
      `select nightshift.enqueue('mixed', jsonb_build_object('text', 'copy', 'copies', jsonb_build_array(j.payload)), force => true) as id
       from nightshift.job j where id = $1`,
      [sealed.id]
    )
    await run(
      shift,
      kind.handle((payload) => payload)
    )
    expect(await shift.result(rows[0].id, patience)).toEqual({ text: "plain" })
    expect(await shift.result(copied.rows[0].id, patience)).toEqual({ text: "copy", copies: [{ text: "sealed" }] })
  })

  it("a value that looks sealed is a value like others", async () => {
    const shift = await open(testCodec("k1"))
    const kind = job("lookalike", { payload: z.object({ $sealed: z.string() }) })
    await run(
      shift,
      kind.handle((payload) => payload)
    )
    const { id } = await shift.enqueue(kind, { $sealed: "k9.hello" })
    expect(await shift.result(id, patience)).toEqual({ $sealed: "k9.hello" })
  })

  it("a job with an id of the caller is repeated if its content is the same", async () => {
    const shift = await open(testCodec("k1"))
    const other = await open(testCodec("k2", "k1"))
    const kind = job("own-id", { payload: secret, queue: "held" })
    const id = "0198c0de-0000-7000-8000-00000000aaaa"
    expect(await shift.enqueue(kind, { text: "same" }, { id })).toMatchObject({ outcome: "enqueued" })
    expect(await other.enqueue(kind, { text: "same" }, { id })).toMatchObject({ id })
    await expect(other.enqueue(kind, { text: "other" }, { id })).rejects.toThrow("different content")
    expect(await database.count("own-id")).toBe(1)
  })

  it("values of the maximum size are stored, and larger ones refused with their own size", async () => {
    const shift = await open(testCodec("k1"))
    const kind = job("large", { payload: z.string(), queue: "held" })
    const { id } = await shift.enqueue(kind, "x".repeat(1024 * 1024 - 2))
    expect(await shift.job(id)).toMatchObject({ payload: "x".repeat(1024 * 1024 - 2) })
    await expect(shift.enqueue(kind, "x".repeat(1024 * 1024))).rejects.toThrow(
      "must be at most 1048576 bytes as JSON, got 1048578"
    )
    await run(
      shift,
      job("results", { payload: z.string() }).handle((text) => text)
    )
    const result = await shift.enqueue(job("results", { payload: z.string() }), "y".repeat(64 * 1024 - 2))
    expect(await shift.result(result.id, patience)).toHaveLength(64 * 1024 - 2)
  })

  it("events that a subscriber compares are refused, unless they are plain", async () => {
    const shift = await open(seal({ keys: [testKey("k1")], plainEvents: ["compared-plain.*"] }))
    const sealed = event("compared", secret)
    const plain = event("compared-plain.a", secret)
    const seen: Array<string> = []
    await run(
      shift,
      on(sealed, { as: "compares", match: { "data.text": "a" } }, ({ text }) => void seen.push(text)),
      on(plain, { as: "compares-plain", match: { "data.text": "a" } }, ({ text }) => void seen.push(text))
    )
    await expect(shift.publish(sealed, { text: "a" })).rejects.toThrow(
      /cannot be sealed.*"compares".*NIGHTSHIFT_SEAL_PLAIN_EVENTS/
    )
    expect(await shift.publish(plain, { text: "a" })).toMatchObject({ jobs: 1 })
    await until("select 1 from nightshift.job where kind = 'compares-plain' and status = 'done'", [])
    expect(seen).toEqual(["a"])
  })
})

describe("without the key", () => {
  it("a process leaves a job to others, and uses up no attempt", async () => {
    const owner = await open(testCodec("k2"))
    const stranger = await open(testCodec("k1"))
    const nobody = await open()
    const kind = job("left", { payload: secret, attempts: 1 })
    const { id } = await owner.enqueue(kind, { text: "mine" })
    for (const shift of [stranger, nobody]) {
      const without = await run(
        shift,
        kind.handle(() => "must not run")
      )
      const { last_error } = await until(
        "select last_error from nightshift.job where id = $1 and last_error is not null and status = 'pending'",
        [id]
      )
      expect(last_error).toContain(`"k2"`)
      // The process claims it again after a while.
      await vi.waitFor(
        async () => {
          expect(await shift.job(id)).toMatchObject({ state: "retrying", attempt: 0, payload: expect.anything() })
          expect((await shift.why(id)).detail).toContain(`"k2"`)
        },
        { timeout: 30_000 }
      )
      await without.stop()
      await database.pool().query("update nightshift.job set last_error = null, run_at = now() where id = $1", [id])
    }
    expect(await stranger.job(id)).toMatchObject({ payload: { $sealed: { key: "k2", bytes: expect.any(Number) } } })
    await run(
      owner,
      kind.handle(({ text }) => text)
    )
    expect(await owner.result(id, patience)).toBe("mine")
    await expect(stranger.result(id)).rejects.toThrow(`"k2"`)
  })

  // Three thousand attempts to claim it.
  const inLongRuns = isLong ? it : () => {}
  inLongRuns("the job does not die, however long that lasts", { timeout: 300_000 }, async () => {
    const kind = job("patient", { payload: secret })
    const sealed = await testCodec("k2").seal(JSON.stringify({ text: "a" }))
    const codec = { ...testCodec("k1"), seal: () => sealed }
    await using shift = await testShift({ handlers: [kind.handle(() => "must not run")], codec, log: false })
    const { id } = await shift.enqueue(kind, { text: "a" })
    // Jobs that no process knows are dead after a day.
    await shift.advance("25h")
    expect(await shift.job(id)).toMatchObject({ state: "retrying", attempt: 0 })
    expect((await shift.why(id)).detail).toContain(`"k2"`)
  })
})

describe("a value that was changed", () => {
  it("makes its job dead as undecodable, with a reason", async () => {
    const shift = await open(testCodec("k1"))
    const kind = job("forged", { payload: secret })
    const { id } = await shift.enqueue(kind, { text: "mine" }, { delay: "1h" })
    const { $sealed } = await stored(id)
    const last = $sealed.at(-2) === "A" ? "B" : "A"
    const forged = JSON.stringify({ $sealed: `${$sealed.slice(0, -2)}${last}${$sealed.slice(-1)}` })
    await database.pool().query("update nightshift.job set payload = $2, run_at = now() where id = $1", [id, forged])
    await run(
      shift,
      kind.handle(() => "must not run")
    )
    await expect(shift.result(id, patience)).rejects.toThrow("changed after it was sealed")
    expect(await shift.job(id)).toMatchObject({
      state: "dead",
      reason: "undecodable",
      payload: { $sealed: { key: "k1" } }
    })
  })
})

describe("keys are rotated while jobs run", () => {
  it("no job is lost or dies, in the order of a rollout", async () => {
    const kind = job("rotated", { payload: z.object({ n: z.number() }) })
    const done: Array<number> = []
    const handler = kind.handle(({ n }) => void done.push(n))
    // Each step is a deploy: one of two processes gets the next list of keys.
    const steps = [["k1"], ["k1", "k2"], ["k2", "k1"], ["k2"]]
    let n = 0
    let [left, right] = [await open(testCodec("k1")), await open(testCodec("k1"))]
    let workers = [await run(left, handler), await run(right, handler)]
    const enqueueSome = async () => {
      for (const shift of [left, right]) {
        await shift.enqueueMany(
          kind,
          Array.from({ length: 20 }, () => ({ n: n++ }))
        )
      }
    }
    for (const keys of steps.slice(1)) {
      const codec = testCodec(...keys)
      await enqueueSome()
      await workers[0]?.stop()
      left = await open(codec)
      workers = [await run(left, handler), workers[1] as (typeof workers)[number]]
      await enqueueSome()
      if (keys.length === 1)
        await until(
          "select 1 where not exists (select from nightshift.job where kind = 'rotated' and finished_at is null)",
          []
        )
      await workers[1]?.stop()
      right = await open(codec)
      workers = [workers[0] as (typeof workers)[number], await run(right, handler)]
    }
    await enqueueSome()
    await until(
      "select 1 where not exists (select from nightshift.job where kind = 'rotated' and finished_at is null)",
      []
    )
    expect([...done].sort((a, b) => a - b)).toEqual(Array.from({ length: n }, (_, each) => each))
    const { rows } = await database
      .pool()
      .query(
        "select distinct split_part(payload->>'$sealed', '.', 1) as key, status from nightshift.job where kind = 'rotated' order by 1"
      )
    expect(rows).toEqual([
      { key: "k1", status: "done" },
      { key: "k2", status: "done" }
    ])
  })
})

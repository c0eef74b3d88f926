import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Exit, Redacted, Scope } from "effect"
import pg from "pg"
import { z } from "zod"
import {
  CellUnavailableError,
  connect,
  type FleetDeclaration,
  type FleetShift,
  job,
  type Log,
  type Shift,
  TransactionError,
  worker
} from "../../src/client/index.js"
import * as CellTag from "../../src/core/CellTag.js"
import * as FleetClient from "../../src/fleet/FleetClient.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import * as LosingProxy from "../support/LosingProxy.js"
import * as ShapingProxy from "../support/ShapingProxy.js"

import { databases, declared, stored } from "./TwoCells.js"

const greet = job("greet", { payload: z.object({ who: z.string() }) })

/** Nothing listens here. */
const nowhere = "postgres://127.0.0.1:1/app"

const opened = (fleet: FleetDeclaration, log: Log = false): Effect.Effect<FleetShift, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(() => connect({ fleet, pool: 2, log })),
    (shift) => Effect.promise(() => shift.close())
  )

const rejected = (call: Promise<unknown>) =>
  Effect.promise(() =>
    call.then(
      () => Promise.reject(new Error("it did not reject")),
      (error: unknown) => error as Error & { readonly code: string }
    )
  )

/** A host that can be gone: its connections end, and it does not answer new ones. */
const vanishing = (target: Redacted.Redacted) =>
  Effect.gen(function* () {
    let isGone = false
    let attempts = 0
    const open = new Set<() => void>()
    const url = yield* LosingProxy.listen(target, (client, server) => {
      attempts += 1
      if (isGone) return
      client.pipe(server)
      server.pipe(client)
      open.add(() => client.resetAndDestroy())
    })
    return {
      url: Redacted.value(url),
      attempts: () => attempts,
      vanish: () => {
        isGone = true
        for (const reset of open) reset()
      },
      appear: () => {
        isGone = false
      }
    }
  })

/** A host that stops answering. */
const silencing = (target: Redacted.Redacted) =>
  Effect.gen(function* () {
    let isSilent = false
    let unanswered = ""
    const url = yield* LosingProxy.listen(target, (client, server) => {
      client.pipe(server)
      client.on("data", (bytes: Buffer) => {
        if (isSilent) unanswered += bytes.toString("latin1")
      })
      server.on("data", (bytes) => isSilent || client.write(bytes))
    })
    return {
      url: Redacted.value(url),
      silence: () => {
        isSilent = true
      },
      /** What it was sent since. */
      unanswered: () => unanswered
    }
  })

const settingsOf = async (shift: Shift, queue: string) => (await shift.queues.list()).find(({ name }) => name === queue)

const tagOf = (cell: string) => CellTag.ofName(cell)

describe("connect({ fleet })", () => {
  it.scopedLive("stores each job in the cell of its queue and key, with an id that names the cell", () =>
    Effect.gen(function* () {
      const urls = yield* databases
      const shift = yield* opened(declared(urls))
      expect(shift.cells).toEqual(["main", "mail"])
      yield* Effect.promise(async () => {
        const plain = await shift.enqueue(greet, { who: "a" })
        const letter = await shift.enqueue(greet, { who: "b" }, { queue: "letters" })
        expect([plain, letter].map(({ id }) => CellTag.ofId(id))).toEqual([tagOf("main"), tagOf("mail")])
        expect(await shift.job(letter.id)).toMatchObject({ queue: "letters", state: "pending" })
        expect(await shift.why(plain.id)).toMatchObject({ reason: "no_pod" })
        expect(await shift.logs(letter.id)).toEqual([])
        expect(await shift.cancel(letter.id)).toMatchObject({ state: "cancelled" })
        const keys = Array.from({ length: 12 }, (_, number) => `k${number}`)
        const made = await Promise.all(keys.map((key) => shift.enqueue(greet, { who: key }, { queue: "divided", key })))
        const again = await shift.enqueue(greet, { who: "k0" }, { queue: "divided", key: "k0" })
        expect(CellTag.ofId(again.id)).toBe(CellTag.ofId(made[0]?.id ?? ""))
        expect(new Set(made.map(({ id }) => CellTag.ofId(id)))).toEqual(new Set([tagOf("main"), tagOf("mail")]))
      })
      const [one, two] = [yield* stored(urls.one), yield* stored(urls.two)]
      expect(one[0]).toBe("default")
      expect(two[0]).toBe("letters")
      expect(one.filter((each) => two.includes(each))).toEqual([])
      expect(one.length + two.length).toBe(15)
    })
  )

  it.scopedLive("asks one cell for an id that names it, and all cells for other ids", () =>
    Effect.gen(function* () {
      const urls = yield* databases
      const shift = yield* opened(declared(urls))
      const { id } = yield* Effect.promise(() => shift.enqueue(greet, { who: "a" }))
      // Stored by a program that knows nothing of the fleet.
      const alone = yield* Effect.promise(async () => {
        await using other = await connect(urls.two, { pool: 2, log: false })
        return other.enqueue(greet, { who: "b" }, { id: "0198c0de-0000-7000-8000-000000000001" })
      })
      expect(yield* Effect.promise(() => shift.job(alone.id))).toMatchObject({ id: alone.id })
      const without = yield* opened(declared({ ...urls, two: nowhere }))
      expect(yield* Effect.promise(() => without.job(id))).toMatchObject({ id })
      expect(yield* rejected(without.job(alone.id))).toBeInstanceOf(CellUnavailableError)
      expect(yield* rejected(shift.job("0198c0de-0000-7000-8000-000000000002"))).toMatchObject({
        code: "JOB_NOT_FOUND"
      })
    })
  )

  it.scopedLive("fails only the calls for a cell that is down", () =>
    Effect.gen(function* () {
      const urls = yield* databases
      const shift = yield* opened(declared({ ...urls, two: nowhere }))
      const error = yield* rejected(shift.enqueue(greet, { who: "b" }, { queue: "letters" }))
      expect(error).toBeInstanceOf(CellUnavailableError)
      expect(error).toMatchObject({ code: "CELL_UNAVAILABLE", cell: "mail", retryable: true })
      expect(error.message).toMatch(/^Cell mail is not available: .*Nothing was stored; try again\. Other cells/s)
      yield* Effect.promise(() => shift.enqueue(greet, { who: "a" }))
      expect(yield* stored(urls.one)).toEqual(["default"])
      const all = yield* rejected(connect({ fleet: declared({ one: nowhere, two: `${nowhere}2` }), log: false }))
      expect(all.message).toMatch(/^No cell of the fleet is available\./)
    })
  )

  it.scopedLive("fails lookups of a cell whose host is gone, without waiting for a connection each", () =>
    Effect.gen(function* () {
      const urls = yield* databases
      const host = yield* vanishing(Redacted.make(urls.two))
      const fleet = declared({ ...urls, two: host.url })
      const before = yield* opened(fleet)
      const { id } = yield* Effect.promise(() => before.enqueue(greet, { who: "a" }, { queue: "letters" }))
      host.vanish()
      const after = yield* opened(fleet)
      for (const shift of [before, after]) {
        const calls = [
          () => shift.job(id),
          () => shift.result(id),
          () => shift.why(id),
          () => shift.cancel(id),
          () => shift.requeue(id),
          () => shift.logs(id)
        ]
        // The first finds out. Later ones that try again fail while their attempt is under way.
        const known = host.attempts()
        while (host.attempts() === known) yield* rejected(shift.job(id))
        const tried = host.attempts()
        for (const call of calls)
          expect(yield* rejected(call())).toMatchObject({ code: "CELL_UNAVAILABLE", cell: "mail", retryable: true })
        expect(host.attempts() - tried).toBeLessThan(calls.length / 2)
      }
      host.appear()
      const found = Effect.promise(() => after.job(id).catch(() => undefined))
      expect(yield* Effect.repeat(found, { until: (job) => job !== undefined })).toMatchObject({ id })
    })
  )

  it.scopedLive("closes without the answers of a cell that has fallen silent", () =>
    Effect.gen(function* () {
      const urls = yield* databases
      const host = yield* silencing(Redacted.make(urls.two))
      const shift = yield* opened(declared({ ...urls, two: host.url }))
      const { id } = yield* Effect.promise(() => shift.enqueue(greet, { who: "a" }, { queue: "letters" }))
      host.silence()
      const unanswered = shift.job(id)
      const stored = shift.enqueue(greet, { who: "b" })
      const closed = shift.close()
      expect((yield* rejected(unanswered)).message).toContain(
        "the process is shutting down, and PostgreSQL does not answer"
      )
      expect(yield* Effect.promise(() => stored)).toMatchObject({ outcome: "enqueued" })
      yield* Effect.promise(() => closed)
    })
  )

  it.scopedLive("stores jobs of other cells while a cell whose routes it reads has fallen silent", () =>
    Effect.gen(function* () {
      const urls = yield* databases
      const host = yield* silencing(Redacted.make(urls.two))
      const warnings: Array<string> = []
      const ignore = () => {}
      const warn = (...given: ReadonlyArray<unknown>) => void warnings.push(given.join(" "))
      const log = { debug: ignore, info: ignore, warn, error: ignore }
      const shift = yield* opened(declared({ ...urls, two: host.url }), log)
      const { id } = yield* Effect.promise(() => shift.enqueue(greet, { who: "a" }, { queue: "letters" }))
      yield* Effect.promise(() => shift.enqueue(greet, { who: "b" }))
      // Opens the connection that reads the routes.
      yield* Effect.promise(() => Promise.all([shift.job(id), shift.job(id)]))
      host.silence()
      let isOver = false
      const unanswered = shift.job(id).catch(() => {
        isOver = true
      })
      while (!host.unanswered().includes('"route"')) yield* Effect.promise(() => shift.enqueue(greet, { who: "c" }))
      expect(isOver).toBe(false)
      const outages = warnings.filter((each) => each.includes("routes of cell mail"))
      expect(outages).toEqual([expect.stringContaining("Jobs without a queue follow those that were read last")])
      yield* Effect.promise(() => shift.close().then(() => unanswered))
    })
  )

  it.scopedLive("accepts a transaction of the job's cell only", () =>
    Effect.gen(function* () {
      const urls = yield* databases
      const shift = yield* opened(declared(urls))
      yield* Effect.promise(async () => {
        const tx = new pg.Client({ connectionString: urls.two })
        await tx.connect()
        try {
          await tx.query("begin")
          const wrong = await shift.enqueue(greet, { who: "a" }, { tx }).catch((error: unknown) => error)
          expect(wrong).toBeInstanceOf(TransactionError)
          expect(String((wrong as Error).message)).toMatch(
            /the transaction is of cell mail, but the job belongs to cell main \(.*\)\. Begin the transaction there/
          )
          await shift.enqueue(greet, { who: "b" }, { queue: "letters", tx })
          await shift.enqueueMany(greet, [{ who: "c" }], { queue: "letters", tx })
          await tx.query("commit")
          await tx.query("begin")
          await shift.enqueue(greet, { who: "d" }, { queue: "letters", tx })
          await tx.query("rollback")
        } finally {
          await tx.end()
        }
      })
      expect(yield* stored(urls.one)).toEqual([])
      expect(yield* stored(urls.two)).toEqual(["letters", "letters"])
    })
  )

  it.scopedLive("stores jobs of several cells only if asked to, and reports each", () =>
    Effect.gen(function* () {
      const urls = yield* databases
      const payloads = Array.from({ length: 12 }, (_, number) => ({ who: `k${number}` }))
      const options = { queue: "divided", key: ({ who }: { readonly who: string }) => who }
      const shift = yield* opened(declared(urls))
      const error = yield* rejected(shift.enqueueMany(greet, payloads, options))
      expect(error).toMatchObject({ code: "INVALID_JOB", field: "key" })
      expect(error.message).toMatch(
        /belongs to cell \w+, but the first job to cell \w+\. All or none holds within a cell/
      )
      expect([...(yield* stored(urls.one)), ...(yield* stored(urls.two))]).toEqual([])

      const all = yield* Effect.promise(() => shift.enqueueMany(greet, payloads, { ...options, acrossCells: true }))
      expect(all.map(({ outcome }) => outcome)).toEqual(payloads.map(() => "enqueued"))
      const inTwo = yield* stored(urls.two)
      const without = yield* opened(declared({ ...urls, two: nowhere }))
      const some = yield* Effect.promise(() => without.enqueueMany(greet, payloads, { ...options, acrossCells: true }))
      const isInTwo = ({ who }: { readonly who: string }) => inTwo.includes(`divided ${who}`)
      expect(some.map(({ outcome }) => outcome)).toEqual(
        payloads.map((payload) => (isInTwo(payload) ? "failed" : "enqueued"))
      )
      expect(some.find(({ outcome }) => outcome === "failed")).toMatchObject({ error: { code: "CELL_UNAVAILABLE" } })
      expect((yield* stored(urls.one)).length).toBe(2 * (payloads.length - inTwo.length))
    })
  )

  it.scopedLive("follows the routes of all cells, and returns results of workers of one cell", () =>
    Effect.gen(function* () {
      const urls = yield* databases
      const fleet = declared(urls)
      const shift = yield* opened(fleet)
      const ask = job("gh.ask", { payload: z.object({ who: z.string() }), result: z.string() })
      yield* Effect.promise(async () => {
        await using cell = await connect({ fleet, cell: "mail", pool: 4, log: false })
        await using _ = await worker(cell, {
          handlers: [ask.handle(async ({ who }) => `hello ${who}`)],
          queues: ["letters"],
          routes: { "gh.": "letters" }
        })
        const { id } = await shift.enqueue(ask, { who: "Ada" })
        expect(CellTag.ofId(id)).toBe(tagOf("mail"))
        expect(await shift.result(id, { timeout: "30s" })).toBe("hello Ada")
        const own = await cell.enqueue(ask, { who: "Grace" })
        expect(CellTag.ofId(own.id)).toBe(tagOf("mail"))
      })
      expect(yield* stored(urls.one)).toEqual([])
    })
  )

  it.scopedLive("follows the routes of a cell that is down, and does not store its jobs in another", () =>
    Effect.gen(function* () {
      const urls = yield* databases
      const server = yield* Scope.make()
      const { url } = yield* Scope.extend(ShapingProxy.make(Redacted.make(urls.two)), server)
      const fleet = declared({ ...urls, two: Redacted.value(url) })
      const shift = yield* opened(fleet)
      const ask = job("gh.ask", { payload: z.object({ who: z.string() }) })
      yield* Effect.promise(async () => {
        await using cell = await connect(urls.two, { pool: 4, log: false })
        const handlers = [ask.handle(async () => {})]
        await using _ = await worker(cell, { handlers, queues: ["letters"], routes: { "gh.": "letters" } })
        await shift.enqueue(ask, { who: "Ada" })
      })
      yield* Scope.close(server, Exit.void)
      // Registered after the outage began: a job that follows it proves that the routes were read again.
      const later = job("later", { payload: z.object({ who: z.string() }) })
      yield* Effect.promise(async () => {
        await using cell = await connect({ fleet, cell: "main", pool: 4, log: false })
        await using _ = await worker(cell, { handlers: [later.handle(async () => {})], routes: { later: "fresh" } })
      })
      const queueOfLater = Effect.promise(async () => {
        const { id } = await shift.enqueue(later, { who: "Grace" })
        return (await shift.job(id)).queue
      })
      yield* Effect.repeat(queueOfLater, { until: (queue) => queue === "fresh" })
      expect(yield* rejected(shift.enqueue(ask, { who: "Grace" }))).toMatchObject({
        code: "CELL_UNAVAILABLE",
        cell: "mail"
      })
    })
  )

  it.scopedLive("divides the rate that workers declare over the cells of a queue", () =>
    Effect.gen(function* () {
      const fleet = declared(yield* databases)
      yield* Effect.promise(async () => {
        for (const name of ["main", "mail"]) {
          await using cell = await connect({ fleet, cell: name, pool: 4, log: false })
          const handlers = [greet.handle(async () => {})]
          await using _ = await worker(cell, {
            handlers,
            queues: { divided: { rate: "10/s" }, [name]: { rate: "10/s" } }
          })
          expect(await settingsOf(cell, "divided")).toMatchObject({ rate: { jobs: 5, per: 1_000 } })
          expect(await settingsOf(cell, name)).toMatchObject({ rate: { jobs: 10, per: 1_000 } })
        }
      })
      // A change through the fleet is divided too, a change in a cell is that of the cell.
      const change = Effect.flatMap(Queues, (queues) =>
        queues.change("divided", { rate: { jobs: 3, per: Duration.seconds(1) } })
      )
      yield* Effect.provide(change, FleetClient.layer(fleet, { pool: 2 }))
      yield* Effect.promise(async () => {
        await using cell = await connect({ fleet, cell: "mail", pool: 2, log: false })
        expect(await settingsOf(cell, "divided")).toMatchObject({ rate: { jobs: 1, per: 667 } })
        await cell.queues.change("divided", { rate: "4/s" })
        expect(await settingsOf(cell, "divided")).toMatchObject({ rate: { jobs: 4, per: 1_000 } })
      })
    })
  )

  it.scopedLive("refuses invalid options", () =>
    Effect.gen(function* () {
      const urls = yield* databases
      const fleet = declared(urls)
      const message = (options: unknown) =>
        Effect.map(rejected(connect(options as { readonly fleet: FleetDeclaration })), (error) => error.message)
      expect(yield* message({ fleet: 7 })).toMatch(/fleet must be the path of a file, or an object with cells/)
      expect(yield* message({ fleet, schema: "x" })).toMatch(/schema is not an option of connect for a fleet/)
      expect(yield* message({ fleet: { cells: {} } })).toMatch(
        /^The option fleet has one problem:\n {2}cells: expected/
      )
      expect(yield* message({ fleet: "missing.yaml" })).toMatch(/missing.yaml has one problem:\n {2}the file does not/)
      expect(yield* message({ fleet, cell: "mial" })).toMatch(/no cell "mial"\. Did you mean mail\?/)
    })
  )
})

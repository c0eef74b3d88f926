import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect } from "effect"
import { z } from "zod"
import { type FleetShift, job, worker } from "../../src/client/index.js"
import { rendezvous } from "../../src/fleet/Fleet.js"
import * as FleetConfig from "../../src/fleet/FleetConfig.js"
import * as FleetFolder from "../support/FleetFolder.js"
import { scale } from "../support/Scale.js"

const letter = job("letter", { payload: z.object({ key: z.string(), number: z.number() }), queue: "mail" })
const names = ["main", "mail", "mail-2"]
const stopper = fileURLToPath(new URL("fixtures/move-stopper.mjs", import.meta.url))
const unfinished = "select count(*)::int as n from nightshift.job where finished_at is null"
const move = ["move", "mail", "--to", "main,mail,mail-2"]

/** What the handlers of all cells have run, in the order of their starts. */
interface Started {
  readonly number: number
  readonly cell: string
  /** Jobs of the same key that ran at its start. */
  readonly beside: ReadonlyArray<number>
}

const setup = Effect.gen(function* () {
  const folder = yield* FleetFolder.make(names, "  mail: { cells: [main, mail], by: key }\n")
  const started = new Map<string, Array<Started>>()
  const running = new Map<string, Set<number>>()
  /** Jobs that run until they are released. */
  const gates = new Map<string, Deferred.Deferred<void>>()
  const serve = (cell: string) =>
    Effect.gen(function* () {
      const shift = yield* folder.cell(cell)
      const handler = letter.handle(async ({ key, number }) => {
        const now = running.get(key) ?? new Set()
        running.set(key, now)
        started.set(key, [...(started.get(key) ?? []), { number, cell, beside: [...now] }])
        now.add(number)
        const gate = gates.get(`${key} ${number}`)
        if (gate !== undefined) await Effect.runPromise(Deferred.await(gate))
        now.delete(number)
      })
      const queues = { mail: { workers: 4, perKey: { concurrency: 1, order: "strict" as const } } }
      yield* Effect.promise(() => worker(shift, { handlers: [handler], queues }))
    })
  const fleet = yield* FleetConfig.existing(folder.file)
  const cells = names.flatMap((name) => fleet.cells.get(name) ?? [])
  const cellOf = (count: number, key: string) => rendezvous(cells.slice(0, count), key)?.name
  /** A key that the third cell takes over from the first. */
  const movingKeys = (count: number, prefix: string) => {
    const found: Array<string> = []
    for (let number = 0; found.length < count; number += 1)
      if (cellOf(3, `${prefix}-${number}`) === "mail-2") found.push(`${prefix}-${number}`)
    return found
  }
  const settled = Effect.forEach(names, (cell) =>
    Effect.repeat(folder.query(cell, unfinished), { until: ([row]) => row?.n === 0 })
  )
  const gateOf = (key: string, number: number) =>
    Effect.tap(Deferred.make<void>(), (gate) => Effect.sync(() => gates.set(`${key} ${number}`, gate)))
  /** A mover that has stopped before a step, see the fixture. */
  const stoppedAt = (step: string, args: ReadonlyArray<string>) =>
    Effect.tap(folder.start(args, { NODE_OPTIONS: `--import ${stopper}`, MOVE_STOP_AT: step }), (mover) =>
      mover.said(new RegExp(`stopped before the ${step}`))
    )
  /** Jobs of a key, one after the other. */
  const store = (shift: Pick<FleetShift, "enqueue">, key: string, numbers: ReadonlyArray<number>) =>
    Effect.promise(async () => {
      for (const number of numbers) await shift.enqueue(letter, { key, number }, { key })
    })
  /** Makes the jobs of a cell those of a process whose clock is a second ahead. Returns how many. */
  const ahead = (cell: string) =>
    Effect.map(
      folder.query(
        cell,
        `update nightshift.job set run_at = run_at + late.by, created_at = created_at + late.by
        from (select clock_timestamp() + interval '1 s' - max(created_at) as by from nightshift.job) late returning id`
      ),
      ({ length }) => length
    )
  const numbersOf = (key: string) => (started.get(key) ?? []).map(({ number }) => number)
  return { ...folder, started, serve, movingKeys, cellOf, settled, gateOf, stoppedAt, store, ahead, numbersOf }
})

const upTo = (count: number) => Array.from({ length: count }, (_, number) => number)

describe("the order of a key while its queue moves", { timeout: 300_000 }, () => {
  it.scopedLive("waits for a job that starts while the others of its key are taken out of the queue", () =>
    Effect.gen(function* () {
      const { cellOf, fleet, gateOf, movingKeys, query, serve, settled, started, stoppedAt } = yield* setup
      const key = movingKeys(20, "customer").find((name) => cellOf(2, name) === "main") ?? ""
      const first = yield* gateOf(key, 0)
      const producer = yield* fleet()
      yield* Effect.promise(async () => {
        for (const number of upTo(3)) await producer.enqueue(letter, { key, number }, { key })
      })
      yield* serve("mail-2")
      const mover = yield* stoppedAt("lock", move)
      // The first job starts now, whatever the command has read before.
      yield* serve("main")
      yield* Effect.repeat(query("main", "select from nightshift.job where lease is not null"), {
        until: (jobs) => jobs.length === 1
      })
      yield* mover.signal("SIGCONT")
      yield* Effect.repeat(query("main", "select from nightshift.job where queue = 'mail'"), {
        until: (jobs) => jobs.length === 1
      })
      const [{ now } = { now: "" }] = yield* query("main", "select now()::text as now")
      // The command asks again what runs. One that did not wait for the job would end.
      const asks = `select from pg_stat_activity where datname = current_database() and query_start > $1::timestamptz
        and query ~ 'from nightshift.job j[^;]*lease is not null order by j.id' and pid <> pg_backend_pid()`
      yield* Effect.race(
        Effect.repeat(query("main", asks, [now]), { until: (found) => found.length > 0 }),
        mover.finished
      )
      yield* Deferred.succeed(first, undefined)
      expect(yield* mover.finished).toMatchObject({ code: 0 })
      yield* settled
      expect(started.get(key)).toEqual([
        { number: 0, cell: "main", beside: [] },
        { number: 1, cell: "mail-2", beside: [] },
        { number: 2, cell: "mail-2", beside: [] }
      ])
    })
  )

  it.scopedLive("does not depend on small differences between clocks", () =>
    Effect.gen(function* () {
      const { ahead, cell, cellOf, fleet, movingKeys, numbersOf, serve, settled, stoppedAt, store } = yield* setup
      const [key = "", other = ""] = movingKeys(20, "customer").filter((name) => cellOf(2, name) === "main")
      const producer = yield* fleet()
      yield* store(producer, key, [0, 1, 2])
      yield* store(producer, other, [0, 1, 2])
      expect(yield* ahead("main")).toBe(6)
      const target = yield* cell("mail-2")
      yield* store(target, key, [3, 4])
      const mover = yield* stoppedAt("release", move)
      expect(yield* ahead("mail-2")).toBe(8)
      yield* store(target, other, [3, 4])
      yield* mover.signal("SIGCONT")
      expect(yield* mover.finished).toMatchObject({ code: 0, stderr: "" })
      yield* store(target, other, [5])
      yield* serve("mail-2")
      yield* settled
      expect([numbersOf(key), numbersOf(other)]).toEqual([upTo(5), upTo(6)])
    })
  )

  it.scopedLive("does not depend on them for jobs that are stored while others of their key leave the cell", () =>
    Effect.gen(function* () {
      const { ahead, cell, fleet, numbersOf, serve, settled, stoppedAt, store } = yield* setup
      const key = "customer"
      const producer = yield* cell("main")
      yield* store(producer, key, [0, 1, 2])
      const mover = yield* stoppedAt("choice", ["move", "mail", "--to", "mail-2"])
      expect(yield* ahead("main")).toBe(3)
      yield* store(producer, key, [3, 4])
      yield* mover.signal("SIGCONT")
      expect(yield* mover.finished).toMatchObject({ code: 0, stderr: "" })
      yield* store(yield* fleet(), key, [5])
      yield* serve("mail-2")
      yield* settled
      expect(numbersOf(key)).toEqual(upTo(6))
    })
  )

  it.scopedLive("keeps it for jobs of the old list before it changes, and for jobs of the new list", () =>
    Effect.gen(function* () {
      const { cellOf, fleet, gateOf, movingKeys, numbersOf, query, serve, settled, start, started, text } = yield* setup
      yield* Effect.forEach(names, serve)
      const rounds = scale("MOVE_ROUNDS", 40)
      const old = text()
      /** Jobs that a producer stored with the old list after it had changed. */
      const late = new Map<string, Set<number>>()
      /** Stores jobs until the end of the rounds. Gets the new list when `reads` says so. */
      const publish = (keys: ReadonlyArray<string>, from: number, reads: (number: number) => boolean) =>
        Effect.gen(function* () {
          // Before it connects: if the list changes meanwhile, the producer may have the old one.
          let known = text()
          let producer: FleetShift = yield* fleet()
          for (let number = from; number < from + rounds; number += 1) {
            if (known === old && text() !== old && reads(number)) {
              known = text()
              producer = yield* fleet()
            }
            for (const key of keys) {
              yield* Effect.promise(() => producer.enqueue(letter, { key, number }, { key }))
              if (known === old && text() !== old) late.set(key, (late.get(key) ?? new Set()).add(number))
            }
          }
        })
      const producers = ["at-once", "after-a-while", "after-the-move"].map((name) => movingKeys(2, name))
      const [atOnce = [], afterAWhile = [], afterTheMove = []] = producers
      const keys = producers.flat()
      // One job of each key is running when the list changes, and others of the key wait.
      const gates = yield* Effect.forEach(atOnce, (key) => gateOf(key, Math.floor(rounds / 2)))
      yield* Effect.forEach(producers, (some) => publish(some, 0, () => false), { concurrency: 3 })
      const mover = yield* start(move)
      const publishing = Effect.all(
        [
          publish(atOnce, rounds, () => true),
          publish(afterAWhile, rounds, (number) => number > 1.5 * rounds),
          publish(afterTheMove, rounds, () => false)
        ],
        { concurrency: 3 }
      )
      const releasing = Effect.gen(function* () {
        yield* Effect.repeat(query("main", "select from nightshift.job where queue = 'mail>main>mail-2'"), {
          until: (jobs) => jobs.length > 0
        })
        yield* Effect.forEach(gates, (gate) => Deferred.succeed(gate, undefined))
      })
      yield* Effect.all([publishing, releasing, mover.finished], { concurrency: 3 })
      yield* Effect.forEach(producers, (some) => publish(some, 2 * rounds, () => true), { concurrency: 3 })
      expect(yield* mover.finished).toMatchObject({ code: 0, stderr: "" })
      yield* settled
      for (const key of keys) {
        expect(numbersOf(key).toSorted((a, b) => a - b)).toEqual(upTo(3 * rounds))
        const isLate = (number: number) => late.get(key)?.has(number) === true
        const promised = (started.get(key) ?? []).filter(({ number }) => !isLate(number))
        expect(promised.map(({ number }) => number)).toEqual(upTo(3 * rounds).filter((number) => !isLate(number)))
        expect(promised.flatMap(({ beside }) => beside.filter((number) => !isLate(number)))).toEqual([])
        expect(promised[0]?.cell).toBe(cellOf(2, key))
        expect(promised.at(-1)?.cell).toBe("mail-2")
      }
    })
  )

  it.scopedLive("keeps it for all jobs of a queue that is paused until all producers have the new list", () =>
    Effect.gen(function* () {
      const { call, cell, fleet, movingKeys, numbersOf, serve, settled, started } = yield* setup
      yield* Effect.forEach(names, serve)
      const keys = movingKeys(6, "customer")
      const stored = upTo(4)
      const store = (producer: FleetShift, number: number) =>
        Effect.promise(async () => {
          for (const key of keys) await producer.enqueue(letter, { key, number }, { key })
        })
      const shifts = yield* Effect.forEach(names, cell)
      const change = (paused: boolean) =>
        Effect.promise(() => Promise.all(shifts.map((shift) => shift.queues.change("mail", { paused }))))
      const old = yield* fleet()
      yield* store(old, 0)
      yield* change(true)
      yield* store(old, 1)
      expect(yield* call(...move)).toMatchObject({ code: 0 })
      yield* store(old, 2)
      yield* store(yield* fleet(), 3)
      expect(yield* call("move", "mail")).toMatchObject({ code: 0 })
      yield* change(false)
      yield* settled
      for (const key of keys) {
        expect(numbersOf(key)).toEqual(stored)
        expect(started.get(key)?.flatMap(({ beside }) => beside)).toEqual([])
        expect(started.get(key)?.at(-1)?.cell).toBe("mail-2")
      }
    })
  )
})

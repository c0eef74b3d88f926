import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { z } from "zod"
import { job, worker, workflow } from "../../src/client/index.js"
import * as FleetFolder from "../support/FleetFolder.js"
import { scale } from "../support/Scale.js"

const Payload = z.object({ id: z.string() })
const signals = { approval: z.object({ by: z.string() }) }
const killer = fileURLToPath(new URL("fixtures/move-killer.mjs", import.meta.url))

/** The runs of all handlers, in both cells. */
const ledger = () => {
  const runs = new Map<string, Array<string>>()
  const note = (id: string, cell: string) => void runs.set(id, [...(runs.get(id) ?? []), cell])
  return { runs, note, twice: () => [...runs].filter(([, cells]) => cells.length !== 1) }
}

const open = `select (select count(*) from nightshift.job where finished_at is null)::int
  + (select count(*) from nightshift.batch where closed_at is null)::int as n`
const unfinished = "select count(*)::int as n from nightshift.job where finished_at is null"

describe("nightshift fleet move, killed with -9", { timeout: 900_000 }, () => {
  it.scopedLive("loses no job, and runs none in both cells, whichever statement it was killed at", () =>
    Effect.gen(function* () {
      const { cell: opened, query, run } = yield* FleetFolder.make(["main", "mail"], "  other: mail\n")
      const { note, runs, twice } = ledger()
      const [first, most, by] = [scale("MOVE_KILLS_FROM", 1), scale("MOVE_KILLS", 60), scale("MOVE_KILLS_STEP", 12)]
      const numbers = Array.from({ length: Math.ceil((most - first + 1) / by) }, (_, place) => first + place * by)
      const kills = ["before", "after"].flatMap((when) => numbers.map((at) => ({ at, when, queue: `${when}-${at}` })))
      const queues = kills.map(({ queue }) => queue)
      const greet = job("greet", { payload: Payload })
      const closing = job("closing", { payload: Payload, queue: "other" })
      const bill = workflow("bill", { payload: Payload, key: ({ id }) => id, signals }, async ({ id }, step) => {
        await step.run("charge", () => note(`charge ${id}`, "either"))
        return (await step.waitFor("approval"))?.by
      })
      const serve = (cell: string) =>
        Effect.gen(function* () {
          const shift = yield* opened(cell)
          const handler = greet.handle(async ({ id }) => note(id, cell))
          const limits = { workers: 1, perKey: 1 }
          const handlers = [handler, bill, closing.handle(async ({ id }) => note(id, cell))]
          const declared = Object.fromEntries([...queues, "other"].map((queue) => [queue, limits]))
          yield* Effect.promise(() => worker(shift, { handlers, queues: declared }))
          return shift
        })
      const [main, mail] = [yield* serve("main"), yield* serve("mail")]
      const ids: Array<string> = []
      const ended: Array<number> = []
      for (const { at, queue, when } of kills) {
        yield* Effect.promise(async () => {
          await main.start(bill, { id: queue }, { queue })
          for (const number of [0, 1, 2, 3, 4, 5]) {
            const id = `${queue} ${number}`
            ids.push(id)
            // The later half is certain to be there when the queue moves.
            const options = { queue, key: `k${number % 2}`, ...(number > 2 ? { delay: "1h" as const } : {}) }
            await main.enqueue(greet, { id }, options)
          }
          ids.push(`${queue} member`, `${queue} follow-up`)
          const followUp = closing.followUp({ id: `${queue} follow-up` })
          await main.batches.create((add) => add(greet, { id: `${queue} member` }, { queue, delay: "1h" }), {
            followUp
          })
        })
        const env = { NODE_OPTIONS: `--import ${killer}`, MOVE_KILL_AT: String(at), MOVE_KILL_WHEN: when }
        const { code, signal } = yield* run(["move", queue, "--to", "mail"], env)
        expect(code === 0 || signal === "SIGKILL", `exit code ${code}`).toBe(true)
        if (signal === "SIGKILL") ended.push(at)
        // Neither cell may lose a signal, wherever the execution is.
        yield* Effect.promise(() =>
          (at % 2 === 0 ? main : mail).execution(bill, queue).signal("approval", { by: queue })
        )
      }
      // Otherwise the checks below say nothing.
      expect(ended.length).toBeGreaterThan(kills.length / 3)
      const last = yield* run(["move", ...queues, "--to", "mail"])
      expect(last).toMatchObject({ code: 0, stderr: "" })
      yield* query("mail", "update nightshift.job set run_at = created_at where run_at > created_at and kind = 'greet'")
      yield* Effect.repeat(query("mail", open), { until: ([row]) => row?.n === 0 })
      expect(yield* query("main", unfinished)).toEqual([{ n: 0 }])
      expect(twice()).toEqual([])
      expect(ids.filter((id) => !runs.has(id))).toEqual([])
      const results = yield* Effect.promise(() =>
        Promise.all(queues.map((queue) => mail.execution(bill, queue).result()))
      )
      expect(results).toEqual(queues)
      expect(yield* query("mail", "select from nightshift.batch where counts ? 'moving'")).toEqual([])
      expect(yield* query("main", "select from nightshift.workflow_deferred")).toEqual([])
      expect(new Set([...runs.values()].flat())).toEqual(new Set(["main", "mail", "either"]))
    })
  )
})

describe("nightshift fleet move, under load", { timeout: 300_000 }, () => {
  it.scopedLive("divides a queue over a new cell while producers store jobs, and runs each job once", () =>
    Effect.gen(function* () {
      const names = ["main", "mail", "mail-2"]
      const {
        cell: opened,
        fleet,
        query,
        run,
        text
      } = yield* FleetFolder.make(names, "  mail: { cells: [main, mail], by: key } # two servers\n")
      const { note, twice } = ledger()
      const started = new Map<string, Array<number>>()
      const letter = job("letter", { payload: z.object({ key: z.string(), number: z.number() }), queue: "mail" })
      yield* Effect.forEach(names, (cell) =>
        Effect.flatMap(opened(cell), (shift) => {
          const handler = letter.handle(async ({ key, number }) => {
            note(`${key} ${number}`, cell)
            started.set(key, [...(started.get(key) ?? []), number])
          })
          return Effect.promise(() =>
            worker(shift, { handlers: [handler], queues: { mail: { workers: 4, perKey: 1 } } })
          )
        })
      )
      const keys = Array.from({ length: 12 }, (_, number) => `customer-${number}`)
      const rounds = scale("MOVE_ROUNDS", 40)
      let producer = yield* fleet()
      const store = (from: number, to: number) =>
        Effect.promise(async () => {
          for (let number = from; number < to; number += 1)
            for (const key of keys) await producer.enqueue(letter, { key, number }, { key })
        })
      yield* store(0, rounds)
      // The producer has the old list and goes on while the queue moves.
      const [moved] = yield* Effect.all(
        [run(["move", "mail", "--to", "main,mail,mail-2"]), store(rounds, 2 * rounds)],
        { concurrency: 2 }
      )
      expect(moved).toMatchObject({ code: 0, stderr: "" })
      expect(text()).toContain("  mail: { cells: [main, mail, mail-2], by: key } # two servers\n")
      const settled = Effect.forEach(names, (cell) =>
        Effect.repeat(query(cell, unfinished), { until: ([row]) => row?.n === 0 })
      )
      yield* settled
      producer = yield* fleet()
      yield* store(2 * rounds, 3 * rounds)
      yield* settled
      expect(twice()).toEqual([])
      const all = Array.from({ length: 3 * rounds }, (_, number) => number)
      for (const key of keys) expect(started.get(key)?.toSorted((a, b) => a - b)).toEqual(all)
      const [{ n: there } = { n: 0 }] = yield* query("mail-2", "select count(*)::int as n from nightshift.job")
      expect(there).toBeGreaterThan(0)
      // The other cells have no key of the new one left, and gave theirs to no other cell.
      const doctor = yield* run(["doctor", "--json"])
      expect(doctor.stdout).not.toContain("belong in another cell")
    })
  )
})

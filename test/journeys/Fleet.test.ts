import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted, Schedule } from "effect"
import { z } from "zod"
import { CellUnavailableError, connect, type FleetDeclaration, job, worker } from "../../src/client/index.js"
import * as FaultServer from "../faults/FaultServer.js"

const letter = job("letter", { payload: z.object({ key: z.string(), number: z.number() }), queue: "mail" })

const cells = ["main", "mail-1", "mail-2"] as const

describe("a fleet on three PostgreSQL servers", () => {
  it.scopedLive("keeps the order of each key, and goes on while one server is stopped", () =>
    Effect.gen(function* () {
      const servers = yield* Effect.forEach(cells, () => FaultServer.make(), { concurrency: "unbounded" })
      const fleet: FleetDeclaration = {
        cells: Object.fromEntries(
          cells.map((cell, place) => [cell, { database: Redacted.value(servers[place]?.url ?? Redacted.make("")) }])
        ),
        queues: { mail: { cells: ["mail-1", "mail-2"], by: "key" } },
        default: "main"
      }
      const started = new Map<string, Array<number>>()
      const handler = letter.handle(async ({ key, number }) => {
        started.set(key, [...(started.get(key) ?? []), number])
      })
      yield* Effect.forEach(
        ["mail-1", "mail-2"],
        (cell) =>
          Effect.acquireRelease(
            Effect.promise(async () => {
              const shift = await connect({ fleet, cell, log: false })
              await worker(shift, { handlers: [handler], queues: { mail: { workers: 4, perKey: 1 } } })
              return shift
            }),
            (shift) => Effect.promise(() => shift.close())
          ),
        { concurrency: "unbounded" }
      )
      const shift = yield* Effect.acquireRelease(
        Effect.promise(() => connect({ fleet, log: false })),
        (shift) => Effect.promise(() => shift.close())
      )
      const keys = Array.from({ length: 8 }, (_, number) => `customer:${number}`)
      const numbers = Array.from({ length: 10 }, (_, number) => number)
      const ids = yield* Effect.promise(async () => {
        const made: Array<string> = []
        for (const number of numbers)
          for (const key of keys) made.push((await shift.enqueue(letter, { key, number }, { key })).id)
        await Promise.all(made.map((id) => shift.result(id, { timeout: "2m" })))
        return made
      })
      expect(new Set(ids.map((id) => id.slice(20, 23))).size).toBe(2)
      for (const key of keys) expect(started.get(key)).toEqual(numbers)

      // Stopped: its own keys fail, and the others are stored and run.
      const [, , stopped] = servers
      yield* stopped?.signal("SIGINT") ?? Effect.void
      yield* stopped?.ended ?? Effect.void
      const outcomes = yield* Effect.forEach(keys, (key) =>
        Effect.promise(async () => {
          try {
            const { id } = await shift.enqueue(letter, { key, number: 10 }, { key })
            await shift.result(id, { timeout: "2m" })
            return "ran"
          } catch (error) {
            expect(error).toBeInstanceOf(CellUnavailableError)
            expect(error).toMatchObject({ cell: "mail-2", retryable: true })
            return "unavailable"
          }
        })
      )
      expect(new Set(outcomes)).toEqual(new Set(["ran", "unavailable"]))
      // Ids of cells that answer are still found.
      const found = yield* Effect.promise(() => shift.job(ids[outcomes.indexOf("ran")] ?? ""))
      expect(found.state).toBe("done")

      yield* stopped?.start ?? Effect.void
      const key = keys[outcomes.indexOf("unavailable")] ?? ""
      const stored = Effect.tryPromise(() => shift.enqueue(letter, { key, number: 11 }, { key }))
      const { id } = yield* Effect.retry(stored, Schedule.spaced("200 millis"))
      yield* Effect.promise(() => shift.result(id, { timeout: "2m" }))
      expect(started.get(key)).toEqual([...numbers, 11])
    })
  )
})

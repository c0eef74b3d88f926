import { describe, expect, it } from "@effect/vitest"
import { Context, Duration, Effect, Exit, Option, Redacted, Schedule, Schema, Scope } from "effect"
import * as CellTag from "../../src/core/CellTag.js"
import { Database } from "../../src/database/Database.js"
import * as FleetClient from "../../src/fleet/FleetClient.js"
import * as Job from "../../src/queue/Job.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import * as ShapingProxy from "../support/ShapingProxy.js"

import { databases, declared, stored } from "./TwoCells.js"

describe("Fleet.layer", () => {
  it.scopedLive("enqueues and reads like the layer of one cell", () =>
    Effect.gen(function* () {
      const urls = yield* databases
      const Greet = Job.make("greet", { payload: Schema.Struct({ who: Schema.String }), queue: "letters" })
      yield* Effect.gen(function* () {
        const { id } = yield* Greet.enqueue({ who: "Ada" })
        expect(CellTag.ofId(id)).toBe(CellTag.ofName("mail"))
        const search = yield* JobSearch
        expect((yield* search.get(id)).queue).toBe("letters")
        expect((yield* search.list({}, { limit: 10 })).jobs.map((each) => each.id)).toEqual([id])
        expect((yield* search.counts).map(({ queue }) => queue)).toEqual(["letters"])
        const missing = yield* Effect.exit(search.get("0198c0de-0000-7000-8000-000000000003" as typeof id))
        const failure = Exit.isFailure(missing) ? Option.getOrUndefined(Exit.causeOption(missing)) : undefined
        expect(String(failure)).toMatch(/There is no job/)

        // In a transaction of another cell's database, its tables would accept the job.
        const cells = yield* FleetClient.Cells
        const { services } = yield* cells.open(cells.fleet.main)
        const { transaction } = Context.get(services, Database)
        const refused = yield* Effect.flip(transaction(Greet.enqueue({ who: "Grace" })))
        expect(refused.message).toMatch(/is in another cell: the transaction is of cell main, but the job belongs to/)
        expect(yield* stored(urls.one)).toEqual([])
      }).pipe(Effect.provide(FleetClient.layer(declared(urls), { pool: 2 })))
    })
  )

  it.scopedLive("sorts a list of one cell by any column, and refuses to sort one over several", () =>
    Effect.gen(function* () {
      const fleet = declared(yield* databases)
      const Greet = Job.make("greet", { payload: Schema.Struct({ who: Schema.String }) })
      yield* Effect.gen(function* () {
        const priorities = [0, 2, 1]
        const ids = yield* Effect.forEach(priorities, (priority) =>
          Effect.map(Greet.enqueue({ who: "Ada" }, { queue: "letters", priority }), ({ id }) => id)
        )
        yield* Greet.enqueue({ who: "Grace" })
        const search = yield* JobSearch
        const sort = { by: "priority", descending: true } as const
        const letters = yield* search.list({ queue: "letters" }, { limit: 10, sort })
        expect(letters.jobs.map(({ id }) => id)).toEqual([ids[1], ids[2], ids[0]])
        const oldestFirst = yield* search.list({}, { limit: 10, sort: { by: "created", descending: false } })
        expect(oldestFirst.jobs.map(({ id }) => id).slice(0, 3)).toEqual(ids)
        const refused = yield* Effect.flip(search.list({}, { limit: 10, sort }))
        expect(refused).toMatchObject({ _tag: "SortRefused", answer: { status: 400, field: "sort" } })
        expect(refused.message).toBe(
          "Jobs of several cells (main, mail) can be sorted by created only, got priority. Sort by created, or list the jobs of one cell."
        )
      }).pipe(Effect.provide(FleetClient.layer(fleet, { pool: 2 })))
    })
  )

  it.scopedLive(
    "shows the settings of a queue in its own cells, and the rate limit of a divided queue as it was set",
    () =>
      Effect.gen(function* () {
        const fleet = declared(yield* databases)
        yield* Effect.gen(function* () {
          const queues = yield* Queues
          const cells = yield* FleetClient.Cells
          yield* queues.declare(["divided", "letters"])
          // As a move leaves the queue in its old cell. Main is the first cell of the list, mail the last one.
          for (const [queue, cell] of [
            ["letters", "main"],
            ["others", "mail"]
          ] as const) {
            const { services } = yield* cells.open(cells.fleet.cells.get(cell) ?? cells.fleet.main)
            if (queue === "others") yield* queues.declare([queue])
            yield* Context.get(services, Queues).change(queue, { paused: true })
          }
          const rate = { jobs: 10, per: Duration.seconds(1) }
          const { after } = yield* queues.change("divided", { rate })
          expect(after.rate).toEqual(rate)
          const { rate: read } = yield* queues.get("divided")
          yield* queues.change("divided", { rate: read })
          expect((yield* queues.get("divided")).rate).toEqual(rate)
          const all = yield* queues.all
          expect(all.map(({ name, paused }) => [name, paused])).toEqual([
            ["divided", false],
            ["letters", false],
            ["others", false]
          ])
          for (const each of all) expect(yield* queues.get(each.name)).toEqual(each)
        }).pipe(Effect.provide(FleetClient.layer(fleet, { pool: 2 })))
      })
  )

  it.scopedLive("says that a divided queue may have changed if only some of its cells could be changed", () =>
    Effect.gen(function* () {
      const urls = yield* databases
      const server = yield* Scope.make()
      const { url } = yield* Scope.extend(ShapingProxy.make(Redacted.make(urls.two)), server)
      yield* Effect.gen(function* () {
        const queues = yield* Queues
        const cells = yield* FleetClient.Cells
        yield* queues.declare(["divided"])
        yield* Scope.close(server, Exit.void)
        const error = yield* Effect.flip(queues.change("divided", { maxWorkers: 3 }))
        expect(error).toMatchObject({ cell: "mail", nothingWritten: false })
        const { services } = yield* cells.open(cells.fleet.main)
        expect((yield* Context.get(services, Queues).get("divided")).maxWorkers).toBe(3)
        // Its settings are those of its first cell.
        expect((yield* queues.get("divided")).maxWorkers).toBe(3)
        expect(yield* Effect.flip(queues.change("letters", { maxWorkers: 3 }))).toMatchObject({ nothingWritten: true })
      }).pipe(Effect.provide(FleetClient.layer(declared({ ...urls, two: Redacted.value(url) }), { pool: 2 })))
    })
  )

  it.scopedLive("does not try a cell again with every call while its server refuses connections", () =>
    Effect.gen(function* () {
      const urls = yield* databases
      const Greet = Job.make("greet", { payload: Schema.Struct({ who: Schema.String }), queue: "letters" })
      const server = yield* Scope.make()
      const { url } = yield* Scope.extend(ShapingProxy.make(Redacted.make(urls.two)), server)
      yield* Effect.gen(function* () {
        yield* Greet.enqueue({ who: "Ada" })
        yield* Scope.close(server, Exit.void)
        const failure = Effect.flip(Greet.enqueue({ who: "Grace" }))
        // The first may be of the connection that was open.
        yield* Effect.repeat(failure, { until: ({ message }) => message.includes("ECONNREFUSED") })
        const errors = yield* Effect.replicateEffect(failure, 50)
        for (const error of errors) expect(error).toBeInstanceOf(FleetClient.CellUnavailable)
        expect(new Set(errors).size).toBeLessThan(25)

        const { hostname, port } = new URL(Redacted.value(url))
        yield* ShapingProxy.make(Redacted.make(urls.two), { host: hostname, port: Number(port) })
        yield* Effect.retry(Greet.enqueue({ who: "Grace" }), Schedule.spaced("20 millis"))
      }).pipe(Effect.provide(FleetClient.layer(declared({ ...urls, two: Redacted.value(url) }), { pool: 2 })))
      expect(yield* stored(urls.two)).toEqual(["letters", "letters"])
    })
  )
})

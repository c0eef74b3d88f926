import { describe, expect, it } from "@effect/vitest"
import { Context, Effect, Schema } from "effect"
import pg from "pg"
import { z } from "zod"
import { event, on, type Shift, worker } from "../../src/client/index.js"
import { Database } from "../../src/database/Database.js"
import * as FleetClient from "../../src/fleet/FleetClient.js"
import * as Event from "../../src/handlers/Event.js"
import * as Job from "../../src/queue/Job.js"
import * as FleetFolder from "../support/FleetFolder.js"

const paid = event("order.paid", z.object({ order: z.string() }))
const events = "select name from nightshift.event"

const setup = Effect.gen(function* () {
  const folder = yield* FleetFolder.make(["main", "mail"], "  letters: mail\n")
  const got: Array<string> = []
  const subscribe = (shift: Shift, cell: string, as: string) =>
    Effect.acquireRelease(
      Effect.promise(() =>
        worker(shift, {
          handlers: [on(paid, { as }, async ({ order }) => void got.push(`${as} in ${cell}: ${order}`))]
        })
      ),
      (started) => Effect.promise(() => started.stop())
    )
  const reached = (count: number) =>
    Effect.repeat(
      Effect.zipRight(
        folder.query("main", "select 1"),
        Effect.sync(() => got.length)
      ),
      { until: (length) => length >= count }
    )
  return { ...folder, got, subscribe, reached }
})

const messageOf = (call: Promise<unknown>) =>
  Effect.promise(() =>
    call.then(
      () => "it did not reject",
      (error: Error) => error.message
    )
  )

describe("events in a fleet", { timeout: 300_000 }, () => {
  it.scopedLive("publishes in the default cell, for its subscribers", () =>
    Effect.gen(function* () {
      const { call, cell, fleet, got, query, reached, subscribe } = yield* setup
      const [main, mail, whole] = [yield* cell("main"), yield* cell("mail"), yield* fleet()]
      // Only subscribers of another cell: nothing is stored, and the message says what to do.
      yield* subscribe(mail, "mail", "post-letter")
      const refused = yield* messageOf(whole.publish(paid, { order: "A-1" }))
      expect(refused).toBe(
        'name "order.paid" has no subscriber in cell main, where the events of a fleet are published, but post-letter in mail. Start the workers of these subscribers in main, or publish in one cell: connect({ fleet, cell: "mail" }).'
      )
      expect(yield* query("main", events)).toEqual([])
      expect((yield* call("doctor")).stdout).toMatch(
        /warn +mail +placement +No event order\.paid was published here, and its subscribers \(post-letter\) get none: programs/
      )

      yield* subscribe(main, "main", "send-receipt")
      const published = yield* Effect.promise(() => whole.publish(paid, { order: "A-2" }, { id: "2" }))
      expect(published).toMatchObject({ outcome: "published", jobs: 1 })
      const again = yield* Effect.promise(() => whole.publish(paid, { order: "A-2" }, { id: "2" }))
      expect(again).toMatchObject({ id: published.id, outcome: "repeated" })
      // A cell publishes for its own subscribers.
      yield* Effect.promise(() => mail.publish(paid, { order: "A-3" }))
      yield* reached(2)
      expect(got.toSorted()).toEqual(["post-letter in mail: A-3", "send-receipt in main: A-2"])
      expect((yield* call("doctor", "--json")).stdout).not.toContain("No event order.paid")
    })
  )

  it.scopedLive("refuses a transaction of another cell", () =>
    Effect.gen(function* () {
      const { file, fleet, query, url } = yield* setup
      const whole = yield* fleet()
      const inside = (name: string) =>
        Effect.promise(async () => {
          const client = new pg.Client({ connectionString: url(name) })
          await client.connect()
          await client.query("begin")
          const outcome = await whole.publish(paid, { order: name }, { tx: client }).then(
            ({ outcome }) => outcome as string,
            (error: Error) => error.message
          )
          await client.query("commit")
          await client.end()
          return outcome
        })
      expect(yield* inside("main")).toBe("published")
      expect(yield* inside("mail")).toMatch(/the transaction is of cell mail, but the event belongs to cell main/)
      const Paid = Event.make("order.paid", Schema.Struct({ order: Schema.String }))
      const Letter = Job.make("gh.letter", { payload: Schema.Struct({ to: Schema.String }) })
      yield* query("main", "insert into nightshift.route values ('gh.', 'letters', now(), now())")
      yield* Effect.gen(function* () {
        yield* Paid.publish({ order: "with Effect" })
        const cells = yield* FleetClient.Cells
        const transactionIn = (name: string) =>
          Effect.map(
            Effect.flatMap(Effect.fromNullable(cells.fleet.cells.get(name)), cells.open),
            ({ services }) => Context.get(services, Database).transaction
          )
        const [inMain, inMail] = [yield* transactionIn("main"), yield* transactionIn("mail")]
        yield* inMain(Paid.publish({ order: "in a transaction" }))
        const refused = yield* Effect.flip(inMail(Paid.publish({ order: "in another" })))
        expect(refused).toMatchObject({ message: expect.stringContaining("the event belongs to cell main") })
        // Routes of all cells are read, whichever cell the transaction is of.
        const { id } = yield* inMail(Letter.enqueue({ to: "Ada" }))
        expect(yield* query("mail", "select queue from nightshift.job where id = $1", [id])).toEqual([
          { queue: "letters" }
        ])
      }).pipe(Effect.provide(FleetClient.layer(file, { pool: 2 })))
      expect(yield* query("main", events)).toHaveLength(3)
      expect(yield* query("mail", events)).toHaveLength(0)
    })
  )
})

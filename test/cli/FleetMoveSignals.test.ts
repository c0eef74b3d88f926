import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { z } from "zod"
import { workflow } from "../../src/client/index.js"
import * as FleetFolder from "../support/FleetFolder.js"

const Payload = z.object({ id: z.string() })
const signals = { approval: z.object({ by: z.string() }) }
const bill = workflow(
  "bill",
  { payload: Payload, key: ({ id }) => id, queue: "bills", signals },
  async (_, step) => (await step.waitFor("approval"))?.by
)

const run = <A>(call: () => Promise<A>) => Effect.promise(call)

/** An execution with a signal that a move from main to mail-2 has copied, and then both cells receive signals. */
const interrupted = Effect.gen(function* () {
  const folder = yield* FleetFolder.make(["main", "mail-2"], "  other: mail-2\n")
  const { call, cell, query } = folder
  const [main, target] = [yield* cell("main"), yield* cell("mail-2")]
  yield* run(() => main.start(bill, { id: "one" }))
  const signal = (shift: typeof main, by: string) => run(() => shift.execution(bill, "one").signal("approval", { by }))
  yield* signal(main, "ada")
  yield* query("main", "update nightshift.job set queue = 'bills>main>mail-2'")
  yield* folder.copyJobs("main", "mail-2", "bills>main>mail-2")
  yield* signal(target, "bob")
  /** Who sent the signals that a cell has. */
  const names = (at: string) =>
    Effect.map(
      query(at, "select exit::text as exit from nightshift.workflow_deferred order by length(name), name"),
      (rows) => rows.map(({ exit }) => /ada|bob|cy|dan/.exec(exit)?.[0])
    )
  const move = (to: string) => call("move", "bills", "--to", to)
  return { ...folder, main, target, signal, names, move }
})

describe("a move that was interrupted", () => {
  it.scopedLive("keeps the signals of both cells, also if it is undone", () =>
    Effect.forEach(["main", "mail-2"], (to) =>
      Effect.gen(function* () {
        const { main, move, names, signal } = yield* interrupted
        for (const by of ["cy", "dan"]) yield* signal(main, by)
        expect(yield* move(to)).toMatchObject({ code: 0, stderr: "" })
        expect(yield* names(to)).toEqual(to === "main" ? ["ada", "cy", "dan", "bob"] : ["ada", "bob", "dan", "cy"])
        expect(yield* names(to === "main" ? "mail-2" : "main")).toEqual([])
      })
    )
  )

  it.scopedLive("keeps a signal that comes while it is undone", () =>
    Effect.gen(function* () {
      const { move, names, signal, target, transaction } = yield* interrupted
      const other = yield* transaction("main")
      yield* run(() => other.client.query("update nightshift.job set priority = priority"))
      const going = yield* Effect.fork(move("main"))
      yield* other.awaited
      yield* signal(target, "cy")
      yield* run(() => other.client.query("commit"))
      expect(yield* going).toMatchObject({ code: 0, stderr: "" })
      expect(yield* names("main")).toEqual(["ada", "bob", "cy"])
      expect(yield* names("mail-2")).toEqual([])
    })
  )

  it.scopedLive("has each signal once if it is undone in part and then goes on", () =>
    Effect.gen(function* () {
      const { main, move, names, query, signal } = yield* interrupted
      yield* signal(main, "cy")
      yield* query(
        "mail-2",
        `create function nightshift.refuse() returns trigger language plpgsql as 'begin raise exception ''refused''; end'`
      )
      yield* query(
        "mail-2",
        "create trigger refuse before delete on nightshift.job for each row execute function nightshift.refuse()"
      )
      expect((yield* move("main")).code).not.toBe(0)
      expect(yield* names("main")).toEqual(["ada", "cy", "bob"])
      yield* query("mail-2", "drop trigger refuse on nightshift.job")
      yield* query("mail-2", "drop function nightshift.refuse()")
      expect(yield* move("mail-2")).toMatchObject({ code: 0, stderr: "" })
      expect(yield* names("mail-2")).toEqual(["ada", "cy", "bob"])
      expect(yield* names("main")).toEqual([])
    })
  )
})

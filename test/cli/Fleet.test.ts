import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { z } from "zod"
import { job } from "../../src/client/index.js"
import * as CellTag from "../../src/core/CellTag.js"
import * as FleetFolder from "../support/FleetFolder.js"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const fileOf = (main: string, mail: string, mail2: string) => `
cells:
  main:   { database: "${main}", api: https://main.internal:8787/ }
  mail:   { database: "${mail}" }
  mail-2: { database: "${mail2}" }
queues:
  mail:       { cells: [mail, mail-2], by: key }
  newsletter: mail
default: main
`

/** A folder with a fleet of three databases, and the commands that run in it. */
const fleet = Effect.gen(function* () {
  const urls = yield* Effect.replicateEffect(TestDatabase.migrated, 3)
  const [main = "", mail = "", mail2 = ""] = urls.map((url) => Redacted.value(url))
  const cwd = yield* Nightshift.folder
  const text = fileOf(main, mail, mail2)
  writeFileSync(join(cwd, "fleet.yaml"), text)
  const env = { NIGHTSHIFT_ADMIN_TOKEN: "sesame" }
  const call = (args: ReadonlyArray<string>, more: Readonly<Record<string, string>> = {}) =>
    Nightshift.call(args, { cwd, env: { ...env, ...more } })
  const enqueue = (cell: string, ...args: ReadonlyArray<string>) =>
    Effect.map(call(["enqueue", "greet", "--force", "--json", "--cell", cell, ...args]), ({ stderr, stdout }) => {
      expect(stderr).toBe("")
      return JSON.parse(stdout)
    })
  return { text, urls: { main, mail, mail2 }, call, enqueue }
})

interface CellFinding {
  readonly cell: string
  readonly check: string
  readonly status: string
  readonly found: string
}

const doctor = ({ call }: Effect.Effect.Success<typeof fleet>) =>
  Effect.map(call(["fleet", "doctor", "--json"]), ({ code, stdout }) => {
    const { findings } = JSON.parse(stdout) as { readonly findings: ReadonlyArray<CellFinding> }
    const of = (cell: string, check: string) =>
      findings.filter((finding) => finding.cell === cell && finding.check === check)
    return { code, findings, of }
  })

describe("nightshift --cell", () => {
  it.scopedLive("uses the database of the cell, and makes ids that name it", () =>
    Effect.gen(function* () {
      const { call, enqueue, text } = yield* fleet
      const { id } = yield* enqueue("mail", "--queue", "newsletter")
      expect(CellTag.ofId(id)).toBe(CellTag.ofName("mail"))
      expect((yield* call(["jobs", "show", id, "--cell", "mail"])).code).toBe(0)
      expect(yield* call(["jobs", "show", id, "--cell=main"])).toMatchObject({ code: 1 })
      expect((yield* call(["jobs", "show", id], { NIGHTSHIFT_CELL: "mail" })).code).toBe(0)
      // The text of the file may be in the variable, and a cell takes precedence over DATABASE_URL.
      const given = { NIGHTSHIFT_FLEET: text, NIGHTSHIFT_CELL: "mail", DATABASE_URL: "postgres://nowhere/app" }
      expect((yield* call(["jobs", "show", id], given)).code).toBe(0)
      expect((yield* call(["doctor", "--json"], given)).code).toBe(0)
    })
  )

  it.scopedLive("starts one cell, or all of them", () =>
    Effect.gen(function* () {
      const { call } = yield* fleet
      for (const more of [["--cell", "mail"], ["--embedded"], ["--queues", "mail"]])
        expect(yield* call(["serve", "--fleet", ...more])).toMatchObject({
          code: 2,
          stderr: expect.stringContaining("leave out --embedded, --cell and --queues")
        })
      const given = { NIGHTSHIFT_FLEET: "{ cells: { main: {} } }" }
      expect(yield* call(["jobs", "list", "--cell", "main"], given)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("cells.main.database: is missing")
      })
    })
  )

  it.scopedLive("says which cells there are, and what is wrong with the fleet", () =>
    Effect.gen(function* () {
      const { call } = yield* fleet
      expect(yield* call(["jobs", "list", "--cell", "mial"])).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('The fleet has no cell "mial". Did you mean mail?')
      })
      expect(yield* call(["jobs", "list", "--cell", "other"])).toMatchObject({
        stderr: expect.stringContaining("Cells: main, mail, mail-2.")
      })
      expect(yield* call(["jobs", "list", "--cell", "mail", "--embedded"])).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("Use --cell or --embedded, not both")
      })
      expect(yield* call(["fleet", "list"], { NIGHTSHIFT_FLEET: "{ cells: { main: {} }, queue: {} }" })).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(
          /NIGHTSHIFT_FLEET has 2 problems:\n {2}queue: is not a known key; did you mean queues\?\n {2}cells.main.database: is missing/
        )
      })
      // Text in one line, not a file whose name an error would repeat.
      const line = 'cells: { main: { database: "postgres://app:secret@one/app", data: 1 } }'
      for (const text of [line, ` { ${line} }`]) {
        const { code, stderr } = yield* call(["fleet", "list"], { NIGHTSHIFT_FLEET: text })
        expect([code, stderr]).toEqual([2, expect.stringContaining("cells.main.data: is not a known key")])
        expect(stderr).not.toContain("secret")
      }
      expect(yield* call(["fleet", "list"], { NIGHTSHIFT_FLEET: "elsewhere.yaml" })).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("the file named by NIGHTSHIFT_FLEET does not exist")
      })
      const empty = yield* Nightshift.folder
      expect(yield* Nightshift.call(["fleet", "list"], { cwd: empty })).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("create it, or set NIGHTSHIFT_FLEET")
      })
    })
  )
})

describe("nightshift fleet list", () => {
  it.scopedLive("lists cells with their queues, without passwords", () =>
    Effect.gen(function* () {
      const { call } = yield* fleet
      const { stdout } = yield* call(["fleet", "list", "--json"])
      expect(JSON.parse(stdout)).toMatchObject([
        { name: "main", api: "https://main.internal:8787", queues: ["all others"] },
        { name: "mail", schema: null, queues: ["mail (by key)", "newsletter"] },
        { name: "mail-2", queues: ["mail (by key)"] }
      ])
      expect(stdout).not.toContain("://postgres")
    })
  )
})

describe("nightshift fleet doctor", () => {
  it.scopedLive("checks every cell, and reports a cell that does not answer", () =>
    Effect.gen(function* () {
      const made = yield* fleet
      const found = yield* doctor(made)
      expect(found.code).toBe(0)
      for (const cell of ["main", "mail", "mail-2"])
        for (const check of ["database", "schema", "clock"])
          expect(found.of(cell, check)).toMatchObject([{ status: "ok" }])
      expect(found.of("all cells", "balance")).toMatchObject([
        { status: "ok", found: "Keys of unfinished jobs of queue mail: mail 0 (0 %), mail-2 0 (0 %)." }
      ])
      expect(found.of("mail-2", "placement")).toMatchObject([{ status: "warn", found: "No live process serves mail." }])
      const text = yield* made.call(["fleet", "doctor"], {
        NIGHTSHIFT_FLEET: made.text.replace(made.urls.mail2, "postgres://127.0.0.1:1/app")
      })
      expect(text.code).toBe(1)
      expect(text.stdout).toMatch(/fail +mail-2 +database/)
      expect(text.stdout).toMatch(/ok +main +\d+ of \d+ checks passed\. PostgreSQL/)
    })
  )

  it.scopedLive("finds queues and keys that are not where the fleet places them", () =>
    Effect.gen(function* () {
      const made = yield* fleet
      yield* made.enqueue("main", "--queue", "newsletter")
      const keys = Array.from({ length: 12 }, (_, number) => `customer:${number}`)
      for (const key of keys) yield* made.enqueue("mail", "--queue", "mail", "--key", key)
      const found = yield* doctor(made)
      expect(found.of("main", "placement")).toMatchObject([
        {
          status: "warn",
          found: "1 unfinished job of queue newsletter is here, but the fleet places it in mail."
        }
      ])
      expect(found.of("mail", "placement")).toMatchObject([
        { found: expect.stringMatching(/^\d+ of 12 keys of queue mail belong in another cell/) },
        { found: "No live process serves mail, newsletter." }
      ])
      expect(found.of("all cells", "balance")).toMatchObject([
        { found: "Keys of unfinished jobs of queue mail: mail 12 (100 %), mail-2 0 (0 %)." }
      ])
    })
  )

  it.scopedLive("advises to finish or undo an interrupted move, and keeps the cells of the queue", () =>
    Effect.gen(function* () {
      const made = yield* FleetFolder.make(["main", "mail", "mail-2"], "  mail: { cells: [main, mail], by: key }\n")
      const main = yield* made.cell("main")
      const greet = job("greet", { payload: z.object({}), queue: "mail" })
      yield* Effect.promise(() => main.enqueue(greet, {}, { key: "k" }))
      const advice = (to: string) =>
        Effect.gen(function* () {
          yield* made.query("main", "update nightshift.job set queue = $1", [`mail>main>${to}`])
          const { stdout } = yield* made.call("doctor", "--json")
          const { findings } = JSON.parse(stdout) as { findings: ReadonlyArray<{ found: string; fix?: string }> }
          return findings.find(({ found }) => found.includes("interrupted move"))?.fix
        })
      expect(yield* advice("mail")).toBe("Finish it with `nightshift fleet move mail`.")
      expect(yield* advice("mail-2")).toBe(
        "Run the interrupted command again, with mail-2 among the cells of --to. Or go back with `nightshift fleet move mail`."
      )
      expect(yield* made.call("move", "mail")).toMatchObject({ code: 0, stderr: "" })
      expect(yield* made.ids("mail-2", "mail")).toEqual([])
      expect((yield* Effect.forEach(["main", "mail"], (name) => made.ids(name, "mail"))).flat()).toHaveLength(1)
    })
  )
})

import { describe, expect, it } from "@effect/vitest"
import { Either, Redacted } from "effect"
import * as CellTag from "../../src/core/CellTag.js"
import { cellOfId, place } from "../../src/fleet/Fleet.js"
import type { FleetDeclaration } from "../../src/fleet/FleetDeclaration.js"
import * as FleetFile from "../../src/fleet/FleetFile.js"

const database = (name: string) => ({ database: `postgres://app:secret@${name}/app` })

const read = (value: unknown, variables: Readonly<Record<string, string>> = {}) =>
  FleetFile.read(value, new Map(Object.entries(variables)))

const problemsOf = (value: unknown) => Either.match(read(value), { onLeft: (problems) => problems, onRight: () => [] })

const fleetOf = (value: FleetDeclaration, variables?: Readonly<Record<string, string>>) =>
  Either.getOrThrowWith(read(value, variables), (problems) => new Error(problems.join("\n")))

const divided = (...cells: ReadonlyArray<string>) =>
  fleetOf({
    cells: Object.fromEntries(["main", ...cells].map((name) => [name, database(name)])),
    queues: { mail: { cells, by: "key" }, newsletter: "mail-1" },
    default: "main"
  })

describe("a fleet's declaration", () => {
  it("has cells, queues and a default cell", () => {
    const fleet = divided("mail-1", "mail-2")
    expect([...fleet.cells.keys()]).toEqual(["main", "mail-1", "mail-2"])
    expect(place(fleet, { queue: "newsletter", key: "ada" }).name).toBe("mail-1")
    expect(place(fleet, { queue: "other", key: "ada" }).name).toBe("main")
  })

  it("may have one cell without a default", () => {
    expect(place(fleetOf({ cells: { main: database("one") } }), { queue: "mail" }).name).toBe("main")
  })

  it("takes passwords from environment variables", () => {
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the reader of the file replaces it
    const declared = { cells: { main: { database: "postgres://app:${PASSWORD}@one/app" } } }
    const url = fleetOf(declared, { PASSWORD: "secret" }).main.database
    expect(Redacted.value(url)).toBe("postgres://app:secret@one/app")
    expect(problemsOf(declared)).toEqual(["cells.main.database: expected the environment variable PASSWORD to be set"])
  })

  it("reports all mistakes at once, without passwords", () => {
    const found = problemsOf({
      cells: {
        main: { database: "mysql://root:secret@one/app", shema: "x" },
        "Mail Cell": { database: "postgres://app:secret@two/app", api: "mail:8787", schema: "Upper" },
        mail: {},
        short: "postgres://app:secret@two/app",
        open: { database: "postgres://three/app", api: "https://app:secret@three:8787" },
        "mail-2": { database: "postgres://app:secret@two/app" },
        "mail-3": { database: "postgres://app:secret@two/app" }
      },
      queues: {
        a: "mial",
        b: ["mail", "mail-2"],
        c: { cells: ["mail", "mail"], by: "tenant" },
        d: { cells: [] },
        "no queue": "mail"
      },
      default: "mainn",
      queus: {}
    })
    expect(found).toEqual([
      "queus: is not a known key; did you mean queues?",
      "cells.main.shema: is not a known key; did you mean schema?",
      "cells.main.database: expected a URL like postgres://user:password@host:5432/database",
      'cells.Mail Cell: "Mail Cell" is not a valid name of a cell: use 1 to 64 lower-case letters, digits and -',
      'cells.Mail Cell.schema: expected a lower-case identifier of at most 56 letters, digits and _ that is not a reserved SQL word, got "Upper"',
      'cells.Mail Cell.api: expected a URL without credentials and query, like https://mail.internal:8787, got "mail:8787"',
      "cells.mail.database: is missing; expected a URL like postgres://user:password@host:5432/database",
      'cells.short: expected an object with database, schema, listen, read, api, got "…"',
      "cells.open.api: expected a URL without credentials and query, like https://mail.internal:8787",
      "cells.mail-2: has the database and schema of Mail Cell: cells need separate ones",
      "cells.mail-3: has the database and schema of Mail Cell: cells need separate ones",
      "cells.mail-3: has the database and schema of mail-2: cells need separate ones",
      'queues.a: expected the name of a cell, got "mial"; did you mean mail?',
      'queues.b: several cells need { cells: ["mail","mail-2"], by: key }',
      "queues.c.cells: names mail twice",
      'queues.c.by: expected key, got "tenant"',
      "queues.d.cells: expected a list of cells like [mail, mail-2], got []",
      'queues.no queue: is not a queue name: use 1 to 64 letters, digits, _, . or -, but not "." or ".."',
      'default: expected the name of a cell, got "mainn"; did you mean main?'
    ])
    expect(found.join()).not.toContain("secret")
  })

  it("needs cells, and a default if there are several", () => {
    expect(problemsOf({})).toEqual(["cells: expected at least one cell, like { main: { database: postgres://… } }"])
    expect(problemsOf({ cells: { one: database("one"), two: database("two") } })).toEqual([
      "default: is missing; expected the name of the cell that has all queues that are not listed"
    ])
    expect(problemsOf("main")[0]).toBe('the file: expected an object with cells, queues, default, got "main"')
  })

  it("refuses two cells whose ids look the same", () => {
    const taken = new Map<number, string>()
    let pair: readonly [string, string] | undefined
    for (let number = 0; pair === undefined; number += 1) {
      const [name, tag] = [`cell-${number}`, CellTag.ofName(`cell-${number}`)]
      const other = taken.get(tag)
      if (other !== undefined) pair = [other, name]
      taken.set(tag, name)
    }
    const [one, two] = pair
    const cells = { [one]: database("one"), [two]: database("two") }
    expect(problemsOf({ cells, default: one })).toEqual([
      `cells.${two}: the ids of its jobs would look like those of ${one}: rename it`
    ])
  })
})

describe("a queue that is divided by key", () => {
  const keys = Array.from({ length: 100_000 }, (_, number) => `customer:${number}`)
  const shares = (...cells: ReadonlyArray<string>) => {
    const fleet = divided(...cells)
    const placed = new Map(keys.map((key) => [key, place(fleet, { queue: "mail", key }).name]))
    return { placed, counts: cells.map((cell) => [...placed.values()].filter((name) => name === cell).length) }
  }

  it("spreads keys evenly, within 3 %", () => {
    for (const cells of [
      ["mail-1", "mail-2"],
      ["mail-1", "mail-2", "mail-3"],
      ["a", "b", "c", "d", "mail-1"]
    ]) {
      const { counts } = shares(...cells)
      const fair = keys.length / cells.length
      for (const count of counts) expect(Math.abs(count - fair) / fair).toBeLessThan(0.03)
    }
  })

  it("moves only the keys that a new cell takes over", () => {
    const [before, after] = [shares("mail-1", "mail-2"), shares("mail-1", "mail-2", "mail-3")]
    const moved = keys.filter((key) => before.placed.get(key) !== after.placed.get(key))
    expect(moved.every((key) => after.placed.get(key) === "mail-3")).toBe(true)
    expect(moved.length).toBe(after.counts[2])
  })

  it("keeps every key where releases before this one put it", () => {
    const fleet = divided("mail-1", "mail-2", "mail-3")
    const cellOf = (key: string) => place(fleet, { queue: "mail", key }).name
    expect(["ada", "grace", "customer:1", "ключ", "鍵", ""].map(cellOf)).toEqual([
      "mail-2",
      "mail-3",
      "mail-3",
      "mail-2",
      "mail-3",
      "mail-3"
    ])
  })

  it("places a job without a key by its dedupe key, then by its id", () => {
    const fleet = divided("mail-1", "mail-2", "mail-3")
    for (const key of keys.slice(0, 50)) {
      const cell = place(fleet, { queue: "mail", key })
      expect(place(fleet, { queue: "mail", dedupe: { key } })).toBe(cell)
      expect(place(fleet, { queue: "mail", id: key })).toBe(cell)
      expect(place(fleet, { queue: "mail", key, dedupe: { key: "other" }, id: "another" })).toBe(cell)
    }
    const random = new Set(Array.from({ length: 200 }, () => place(fleet, { queue: "mail" }).name))
    expect([...random].sort()).toEqual(["mail-1", "mail-2", "mail-3"])
  })
})

describe("an id", () => {
  it("names the cell by its tag", () => {
    const fleet = divided("mail-1", "mail-2")
    for (const cell of fleet.cells.values()) {
      const id = `0198c0de-0000-7000-8${cell.tag.toString(16).padStart(3, "0")}-000000000000`
      expect(cellOfId(fleet, id)).toBe(cell)
    }
  })
})

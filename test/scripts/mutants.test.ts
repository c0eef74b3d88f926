import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { mutants } from "../../scripts/mutants/mutants.mjs"
import { marker, rowsOf, update } from "../../scripts/mutants/page.mjs"
import { cases } from "../faults/Registry.js"
import { root } from "../support/Nightshift.js"

const page = readFileSync(join(root, "docs/operate/mutants.md"), "utf8")

describe("the list of mutants", () => {
  it("has at least twenty with unique names", () => {
    expect(mutants.length).toBeGreaterThanOrEqual(20)
    expect(new Set(mutants.map(({ name }) => name)).size).toBe(mutants.length)
  })

  it.each(mutants)("finds the text of $name exactly once, and its tests", ({ edits, tests, toAdd }) => {
    expect(edits.length).toBeGreaterThan(0)
    for (const { file, find, replace } of edits) {
      expect(readFileSync(join(root, file), "utf8").split(find), `${file}: ${find}`).toHaveLength(2)
      expect(replace).not.toBe(find)
    }
    for (const { by, files, tests: pattern } of tests) {
      for (const file of files) expect(existsSync(join(root, file)), file).toBe(true)
      if (by === "fault") expect(cases.filter(({ name }) => new RegExp(pattern).test(name))).not.toEqual([])
    }
    if (tests.every(({ by }) => by === "unit test")) expect(toAdd).toBeDefined()
  })

  it("has results on its page, of mutants that exist, none of which was missed", () => {
    const rows = rowsOf(page)
    expect(mutants.map(({ name }) => name)).toEqual(expect.arrayContaining([...rows.keys()]))
    expect([...rows.values()].filter((row) => row.includes("**nothing**"))).toEqual([])
  })
})

describe("the page of mutants", () => {
  const mutant = (name: string) => ({ name, what: "a | b", edits: [], tests: [], toAdd: "a law" })
  const [one, other] = [mutant("one"), mutant("other")]

  it("keeps the rows of mutants that did not run, and says what noticed the others", () => {
    const first = update(`text\n${marker}\n`, [one, other], [{ mutant: other }])
    expect(first).toContain("text\n")
    expect(first).toContain("0 of 1 mutants were noticed")
    expect(rowsOf(first).get("other")).toBe("| `other` | a \\| b | **nothing** |  |")
    const second = update(first, [one, other], [{ mutant: one, by: "unit test", test: "it works" }])
    expect([...rowsOf(second).values()]).toEqual([
      "| `one` | a \\| b | unit test; to add: a law | it works |",
      "| `other` | a \\| b | **nothing** |  |"
    ])
  })

  it("drops the rows of mutants that no longer exist", () => {
    const first = update(`text\n${marker}\n`, [one, other], [{ mutant: other, by: "law" }])
    expect(rowsOf(update(first, [one], [])).size).toBe(0)
  })
})

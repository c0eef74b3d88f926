import { readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import * as client from "../../src/client/index.js"
import { root } from "../support/Nightshift.js"
import { publicNames } from "../support/PublicNames.js"

const page = readFileSync(join(root, "docs/learn/promises.md"), "utf8")

/** Names in the first column of the table with this header. */
const listed = (header: string): ReadonlySet<string> => {
  const [, rows = ""] = page.split(new RegExp(`\n\\| ${header} *\\|[^\n]*\n`))
  const [table = ""] = rows.split("\n\n")
  const cells = table.split("\n").map((row) => row.split(" | ")[0] ?? "")
  return new Set(cells.flatMap((cell) => [...cell.matchAll(/`(\w+)/g)].map(([, name = ""]) => name)))
}

describe("docs/learn/promises.md", () => {
  const names = publicNames().map(({ name }) => name)
  const members = (type: string) =>
    names.filter((name) => name.startsWith(`${type}.`)).map((name) => name.slice(type.length + 1))

  it.each([
    ["option of `connect\\(url, options\\)`", "ConnectOptions"],
    ["option of `job`", "JobOptions"],
    ["option of `worker`", "WorkerOptions"],
    ["option of `testShift`", "PromiseTestShiftOptions"],
    ["option", "EnqueueOptions"],
    ["field of a filter", "JobFilter"]
  ])("lists everything in the table '%s'", (header, type) => {
    const found = listed(header)
    expect(members(type).length).toBeGreaterThan(3)
    expect(members(type).filter((name) => !found.has(name))).toEqual([])
  })

  it("lists every method of a shift", () => {
    const found = new Set([...listed("method"), "enqueue", "enqueueMany"])
    const methods = members("Shift").filter((name) => /^\w+$/.test(name))
    expect(methods).toContain("publish")
    expect(methods.filter((name) => !found.has(name))).toEqual([])
  })

  it("lists every class of errors", () => {
    const found = listed("class")
    const classes = Object.keys(client).filter((name) => name.endsWith("Error") && name !== "ShiftError")
    expect(classes.length).toBeGreaterThan(30)
    expect(classes.filter((name) => !found.has(name))).toEqual([])
  })
})

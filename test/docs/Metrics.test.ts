import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import * as Nightshift from "../support/Nightshift.js"

const src = join(Nightshift.root, "src")
const declaration = /MetricSpec\.(?:counter|gauge|histogram)\(\s*"(\w+)"/g

/** Every metric that some code declares. */
const declared = () =>
  readdirSync(src, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .flatMap((file) => [...readFileSync(join(src, file), "utf8").matchAll(declaration)])
    .map(([, name]) => `nightshift_${name}`)

describe("docs/operate/metrics.md", () => {
  it("tells the meaning of every metric there is", () => {
    const page = readFileSync(join(Nightshift.root, "docs", "operate", "metrics.md"), "utf8")
    const documented = new Set([...page.matchAll(/^\| `(nightshift_\w+)/gm)].map(([, name]) => name))
    expect(declared().length).toBeGreaterThan(30)
    expect(declared().filter((name) => !documented.has(name))).toEqual([])
  })

  it("has one declaration for each: two would disagree about its labels", () => {
    expect(declared().toSorted()).toEqual([...new Set(declared())].toSorted())
  })
})

import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { examples, manifestOf, names } from "./ExampleProject.js"

const sourcesOf = (name: string) =>
  readdirSync(join(examples, name), { recursive: true, encoding: "utf8" })
    .filter((file) => /\.(ts|mjs|py|go)$/.test(file))
    .map((file) => readFileSync(join(examples, name, file), "utf8"))

/** The packages that a source imports. */
const importedBy = (source: string) =>
  [...source.matchAll(/(?:from|import) "([^".][^"]*)"/g)]
    .map(([, path = ""]) => /^(@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? "")
    .filter((name) => !name.startsWith("node:"))

describe("examples", () => {
  it("are listed in the README, and each has one", () => {
    const listed = [...readFileSync(join(examples, "README.md"), "utf8").matchAll(/^\| \[([\w-]+)\]/gm)]
    expect(listed.map(([, name]) => name).toSorted()).toEqual(names.toSorted())
    expect(names.filter((name) => !existsSync(join(examples, name, "README.md")))).toEqual([])
  })

  it.each(names)(
    "%s: declares the packages that it imports, and has fewer than 150 lines of code, tests included",
    (name) => {
      const { dependencies, devDependencies = {} } = manifestOf(name)
      const missing = sourcesOf(name)
        .flatMap(importedBy)
        .filter((each) => !(each in dependencies) && !(each in devDependencies))
      expect(missing).toEqual([])
      expect(sourcesOf(name).join("").split("\n").length).toBeLessThan(150)
      if (existsSync(join(examples, name, "tsconfig.json"))) {
        const { compilerOptions } = JSON.parse(readFileSync(join(examples, name, "tsconfig.json"), "utf8"))
        expect(compilerOptions).toMatchObject({ strict: true, noUncheckedIndexedAccess: true })
      }
    }
  )
})

import { execFile } from "node:child_process"
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "vitest"
import { files } from "../../src/cli/init/InitTemplate.js"
import { root } from "../support/Nightshift.js"
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
  it("compile in strict mode against the types of the build, and so does what `nightshift init` writes", async () => {
    const folder = join(root, "node_modules", ".cache", "examples")
    rmSync(folder, { recursive: true, force: true })
    for (const [file, text] of Object.entries(files("my-jobs", "0.1.0"))) {
      mkdirSync(dirname(join(folder, "init", file)), { recursive: true })
      writeFileSync(join(folder, "init", file), text)
    }
    const include = [join(examples, "**/*.ts"), "init/**/*.ts"]
    writeFileSync(
      join(folder, "tsconfig.json"),
      JSON.stringify({ extends: join(examples, "tsconfig.json"), include, exclude: [] })
    )
    const tsc = join(root, "node_modules", ".bin", "tsc")
    const { stdout } = await promisify(execFile)(tsc, [
      "--noEmit",
      "--singleThreaded",
      "--listFiles",
      "-p",
      folder
    ]).catch((error: { stdout: string }) => error)
    const lines = stdout.trim().split("\n")
    expect(lines.filter((line) => line.startsWith(folder)).length).toBe(2)
    expect(lines.filter((line) => !line.startsWith("/"))).toEqual([])
  })

  it("are listed in the README, and each has one", () => {
    const listed = [...readFileSync(join(examples, "README.md"), "utf8").matchAll(/^\| \[([\w-]+)\]/gm)]
    expect(listed.map(([, name]) => name).toSorted()).toEqual(names.toSorted())
    expect(names.filter((name) => !existsSync(join(examples, name, "README.md")))).toEqual([])
  })

  it.each(names)(
    "%s: declares the packages that it imports, and has less than 150 lines of code, tests included",
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

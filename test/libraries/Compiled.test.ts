import { execFile } from "node:child_process"
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "vitest"
import { files } from "../../src/cli/init/InitTemplate.js"
import { examples, libraries } from "../examples/ExampleProject.js"
import { root } from "../support/Nightshift.js"
import { publicNames } from "../support/PublicNames.js"
import * as PrismaProject from "./PrismaProject.js"

// `npm run check` does not have these libraries, so what uses them is compiled here.

const tsc = join(root, "node_modules", ".bin", "tsc")

/** The compiler takes seconds, and much longer on a loaded machine. */
const timeout = 300_000

/** What the compiler prints for a folder. */
const compile = async (folder: string, ...args: ReadonlyArray<string>) => {
  const { stdout } = await promisify(execFile)(tsc, ["--noEmit", "--singleThreaded", ...args, "-p", folder]).catch(
    (error: { stdout: string }) => error
  )
  return stdout.trim()
}

/** An empty folder below the libraries, so that imports resolve. */
const emptyFolder = (name: string) => {
  const folder = join(libraries, "node_modules", ".cache", name)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  return folder
}

it(
  "the tests in this folder compile",
  async () => {
    expect(await compile(libraries)).toBe("")
  },
  timeout
)

describe("examples", () => {
  it(
    "compile in strict mode against the types of the build, and so does what `nightshift init` writes",
    async () => {
      const folder = emptyFolder("examples")
      for (const [file, text] of Object.entries(files("my-jobs", "0.1.0"))) {
        mkdirSync(dirname(join(folder, "init", file)), { recursive: true })
        writeFileSync(join(folder, "init", file), text)
      }
      const include = [join(examples, "*/**/*.ts"), "init/**/*.ts"]
      const exclude = [join(examples, "node_modules")]
      writeFileSync(
        join(folder, "tsconfig.json"),
        JSON.stringify({ extends: join(examples, "tsconfig.json"), include, exclude })
      )
      const lines = (await compile(folder, "--listFiles")).split("\n")
      expect(lines.filter((line) => line.startsWith(folder)).length).toBe(2)
      expect(lines.filter((line) => line.startsWith(examples)).length).toBeGreaterThan(20)
      expect(lines.filter((line) => !line.startsWith("/"))).toEqual([])
    },
    timeout
  )
})

const pages = [
  "README.md",
  ...readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" }).map((page) => join("docs", page))
].filter((page) => page.endsWith(".md"))

const blocksOf = (text: string) => [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code]) => code ?? "")

/** The texts with code: pages, and doc comments of names that programs import. */
const documents = () => [
  ...pages.map((page) => ({ page, text: readFileSync(join(root, page), "utf8") })),
  ...publicNames().map(({ examples, name }) => ({ page: name, text: examples.join("\n") }))
]

describe("the code in the documentation", () => {
  it(
    "compiles against this package",
    async () => {
      const folder = emptyFolder("documentation")
      const blocks = documents().flatMap(({ page, text }) =>
        blocksOf(text).map((code, index) => ({ page, index, code }))
      )
      expect(blocks.length).toBeGreaterThan(16)
      for (const { code, index, page } of blocks) {
        writeFileSync(join(folder, `${page.replaceAll(/[^a-z]/gi, "_")}_${index}.ts`), code)
      }
      // The page about Prisma imports the client of its own schema.
      await PrismaProject.generate(folder)
      const compilerOptions = { lib: ["ES2023", "DOM"] }
      writeFileSync(
        join(folder, "tsconfig.json"),
        JSON.stringify({ extends: join(root, "tsconfig.json"), compilerOptions, include: ["*.ts"], exclude: [] })
      )
      expect(await compile(folder)).toBe("")
    },
    timeout
  )
})

import { execFile } from "node:child_process"
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "@effect/vitest"
import { root } from "../support/Nightshift.js"

const pages = [
  "README.md",
  ...readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" }).map((page) => join("docs", page))
].filter((page) => page.endsWith(".md"))

const blocksOf = (page: string) =>
  [...readFileSync(join(root, page), "utf8").matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code]) => code ?? "")

describe("the code in the documentation", () => {
  it("compiles against this package", async () => {
    // Below node_modules, so that imports resolve.
    const folder = join(root, "node_modules", ".cache", "documentation")
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder, { recursive: true })
    const blocks = pages.flatMap((page) => blocksOf(page).map((code, index) => ({ page, index, code })))
    expect(blocks.length).toBeGreaterThan(4)
    for (const { code, index, page } of blocks) {
      writeFileSync(join(folder, `${page.replaceAll(/[^a-z]/gi, "_")}_${index}.ts`), code)
    }
    const tsconfig = {
      extends: "../../../tsconfig.json",
      compilerOptions: {
        lib: ["ES2023", "DOM"],
        paths: {
          nightshift: ["../../../src/index.ts"],
          "nightshift/client": ["../../../src/client/index.ts"],
          "nightshift/testing": ["../../../src/testing/index.ts"],
          "nightshift/workflow": ["../../../src/workflow/index.ts"]
        }
      },
      include: ["*.ts"]
    }
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(tsconfig))
    const tsc = join(root, "node_modules", ".bin", "tsc")
    const { stdout } = await promisify(execFile)(tsc, ["-p", folder, "--singleThreaded"]).catch(
      (error: { stdout: string }) => error
    )
    expect(stdout).toBe("")
  })
})

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, describe, expect, it } from "@effect/vitest"
import { licensesOf, notices } from "../../scripts/licenses.mjs"
import { root } from "../support/Nightshift.js"

const work = mkdtempSync(join(tmpdir(), "nightshift-licenses-"))
afterAll(() => rmSync(work, { recursive: true, force: true }))

const read = (file: string) => readFileSync(join(root, file), "utf8")
const manifest = JSON.parse(read("package.json"))

/** The packages that sources import when they run. The template of `nightshift init` is the text of another program. */
const imported = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
  .filter((file) => /\.tsx?$/.test(file) && !file.endsWith("InitTemplate.ts"))
  .flatMap((file) => [
    ...read(`src/${file}`).matchAll(/^import (?!type )[^"]*"((?:@[\w-]+\/)?[a-z][\w-]*)[\w/.-]*"$/gm)
  ])
  .map(([, name = ""]) => name)

const install = (manifest: { readonly name: string } & Record<string, unknown>, license?: string) => {
  const folder = join(work, "node_modules", manifest.name)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, "package.json"), JSON.stringify({ version: "1.0.0", ...manifest }))
  if (license !== undefined) writeFileSync(join(folder, "LICENCE.md"), license)
  return `node_modules/${manifest.name}/index.js`
}
writeFileSync(join(work, "LICENSE"), "MIT License\n\nCopyright (c) 2026 Shop\n\nPermission is granted.\n")

describe("licences of bundled packages", () => {
  it("are in the build, with each package that sources import", () => {
    const text = read("dist/THIRD_PARTY_LICENSES.txt")
    const listed = [...text.matchAll(/^(\S+)@(\S+) \(.+\)$/gm)].map(([, name = "", version = ""]) => ({
      name,
      version
    }))
    const names = listed.map(({ name }) => name)
    const beside = ["@effect/workflow", ...Object.keys(manifest.optionalDependencies)]
    const bundled = new Set(imported.filter((name) => !beside.includes(name)))
    expect(bundled.size).toBeGreaterThan(8)
    expect([...bundled].filter((name) => !names.includes(name))).toEqual([])
    // Packages that these import.
    expect(names).toEqual(expect.arrayContaining(["pg-protocol", "find-my-way-ts", "resolve-pkg-maps"]))
    const { packages } = JSON.parse(read("package-lock.json"))
    const locked = Object.entries<{ readonly version: string }>(packages).map(
      ([path, { version }]) => `${path.split("node_modules/").at(-1)}@${version}`
    )
    expect(locked).toEqual(expect.arrayContaining(listed.map(({ name, version }) => `${name}@${version}`)))
    expect(text.match(/^Copyright|^ *\(c\)|permission/gim)?.length).toBeGreaterThan(20)
  })

  it("are the texts of the packages, each once, without files of the repository", () => {
    const files = [
      install({ name: "one", license: "ISC" }, "Terms of both"),
      install({ name: "@scope/two", license: "ISC" }, "Terms of both"),
      install({ name: "three", license: "MIT", author: { name: "Grace" } }),
      "src/index.ts"
    ]
    const licenses = licensesOf(work, [...files, ...files])
    expect(licenses.map(({ name }) => name)).toEqual(["@scope/two", "one", "three"])
    expect(licenses[2]?.text).toBe("MIT License\n\nCopyright (c) Grace\n\nPermission is granted.")
    expect(notices(licenses)).toContain("@scope/two@1.0.0 (ISC)\none@1.0.0 (ISC)\n\nTerms of both\n")
  })

  it("stop the build if a package has none", () => {
    const file = install({ name: "four", license: "BSD-3-Clause", author: "Ada" })
    expect(() => licensesOf(work, [file])).toThrow("four@1.0.0 is bundled and has no licence text (BSD-3-Clause)")
  })
})

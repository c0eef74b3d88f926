import { execFileSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, layer } from "@effect/vitest"
import { Effect } from "effect"
import { git } from "../../scripts/release/plan.mjs"
import { addVersions, earlierThan } from "../../scripts/site/versions.mjs"
import { Browser } from "../support/Browser.js"
import * as Nightshift from "../support/Nightshift.js"
import * as StaticFiles from "../support/StaticFiles.js"

const script = join(Nightshift.root, "scripts/site/assets/site.js")

/** Stands for the generator of a release: writes pages with the header and the script of the real site. */
const generator = `
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
const { pages, version } = JSON.parse(readFileSync("package.json", "utf8"))
const folder = process.argv[2]
mkdirSync(join(folder, "assets"), { recursive: true })
copyFileSync(${JSON.stringify(script)}, join(folder, "assets", "site.js"))
for (const page of pages) {
  writeFileSync(join(folder, page), \`<title>\${page} of \${version}</title><span class="version">v\${version}</span>
    <script type="module" src="assets/site.js"></script>\`)
}
writeFileSync(join(folder, "versions.json"), JSON.stringify([{ version, path: "" }]))
`

const commit = (root: string, version: string, pages: ReadonlyArray<string>) => {
  const manifest = { name: "shop", version, pages, type: "module", scripts: { site: "node site.mjs" } }
  const lock = { name: "shop", version, lockfileVersion: 3, packages: { "": { name: "shop", version } } }
  writeFileSync(join(root, "package.json"), JSON.stringify(manifest))
  writeFileSync(join(root, "package-lock.json"), JSON.stringify(lock))
  writeFileSync(join(root, "site.mjs"), generator)
  git(root, "add", "--all")
  git(root, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "--quiet", "--message", version)
}

layer(Browser.layer, { timeout: "3 minutes" })("versions of the website", (it) => {
  it("are the last release of each earlier minor version, newest first", () => {
    const tags = [
      "v0.1.0",
      "v0.10.1",
      "v0.2.0",
      "v0.2.1",
      "v0.9.0",
      "v0.11.0",
      "v0.11.1-rc.1",
      "v0.12.0",
      "nightly",
      ""
    ]
    expect(earlierThan("0.11.1", tags)).toEqual(["0.10.1", "0.9.0", "0.2.1", "0.1.0"])
    expect(earlierThan("0.1.0", ["v0.1.0"])).toEqual([])
  })

  it.scoped("are built from their tags, and the header switches between them", () =>
    Effect.gen(function* () {
      const [root, folder] = [yield* Nightshift.folder, yield* Nightshift.folder]
      git(root, "init", "--quiet")
      commit(root, "0.1.0", ["index.html", "a.html"])
      git(root, "tag", "v0.1.0")
      commit(root, "0.2.0", ["index.html", "a.html", "b.html"])
      execFileSync("node", ["site.mjs", folder], { cwd: root })
      expect(addVersions(root, folder)).toEqual(["0.1.0"])
      expect(git(root, "worktree", "list").split("\n")).toHaveLength(1)
      expect(JSON.parse(readFileSync(join(folder, "v0.1.0/versions.json"), "utf8"))).toEqual([
        { version: "0.2.0", path: "../" },
        { version: "0.1.0", path: "../v0.1.0/" }
      ])
      const site = yield* StaticFiles.serve(folder)
      const page = yield* Browser.page({})
      yield* Effect.promise(async () => {
        const choice = page.getByLabel("Version")
        await page.goto(`${site}/a.html`)
        expect(await choice.locator("option:checked").textContent()).toBe("v0.2.0")
        await choice.selectOption("v0.1.0")
        await page.waitForURL(`${site}/v0.1.0/a.html`)
        expect(await page.title()).toBe("a.html of 0.1.0")
        expect(await choice.locator("option:checked").textContent()).toBe("v0.1.0")
        await choice.selectOption("v0.2.0")
        await page.waitForURL(`${site}/a.html`)
        // A page that the other version does not have.
        await page.goto(`${site}/b.html`)
        await choice.selectOption("v0.1.0")
        await page.waitForURL(`${site}/v0.1.0/index.html`)
      })
    })
  )
})

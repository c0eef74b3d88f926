import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterAll, describe, expect, it } from "@effect/vitest"
import { pack } from "../../scripts/installed.mjs"
import { checks } from "../../scripts/release/checks.mjs"
import { root } from "../support/Nightshift.js"

const work = mkdtempSync(join(tmpdir(), "nightshift-release-test-"))
afterAll(() => rmSync(work, { recursive: true, force: true }))

/** A folder with these files. */
const folderOf = (files: Readonly<Record<string, string>>) => {
  const folder = mkdtempSync(join(work, "package-"))
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    writeFileSync(join(folder, file), text)
  }
  return folder
}

const shop = {
  name: "shop",
  version: "0.2.0",
  type: "module",
  exports: { ".": "./dist/index.js", "./client": "./dist/client.js" },
  bin: { shop: "dist/shop.js" }
}

describe("the package of a release", () => {
  it("contains what it should, within its limits, and works without this repository", async () => {
    const packed = await pack(work)
    expect(await checks["package contents"]({ root, packed })).toEqual([])
    expect(await checks["links in the package"]({ root, packed })).toEqual([])
    expect(await checks["entry points"]({ root, packed })).toEqual([])
  })

  it("is refused if files are missing or stray, if it is too large, and if links lead nowhere", async () => {
    const from = folderOf({
      "package.json": JSON.stringify(shop),
      "README.md":
        "[Guide](docs/guide.md), [list](docs/learn/), [site](https://example.org), [decision](docs/adr/1.md)\n",
      "docs/learn/list.md": "[up](../../README.md)\n",
      "dist/index.js.map": "{}",
      "dist/index.js": "",
      ".env": "TOKEN=secret"
    })
    const packed = await pack(work, from)
    const found = await checks["package contents"]({ root: from, packed: { ...packed, unpackedSize: 10_600_000 } })
    expect(found).toEqual([
      '.env is no file of a release: exclude it in "files" of package.json.',
      'dist/index.js.map is no file of a release: exclude it in "files" of package.json.',
      ...["LICENSE", "CHANGELOG.md", "dist/THIRD_PARTY_LICENSES.txt", "dist/shop.js", "dist/client.js"].map(
        (file) => `${file} is missing: run npm run build, and see "files" of package.json.`
      ),
      "The package has 10.60 MB unpacked, and 10.50 MB are the limit."
    ])
    expect(await checks["links in the package"]({ root: from, packed })).toEqual([
      expect.stringMatching(/^README\.md links to docs\/guide\.md, which is not in the package/)
    ])
  })

  it("is refused if an entry point or the command does not start", async () => {
    const from = folderOf({
      "package.json": JSON.stringify(shop),
      "dist/index.js": 'import "not-installed"',
      "dist/client.js": "",
      "dist/shop.js": 'console.log("0.1.0")'
    })
    expect(await checks["entry points"]({ root: from, packed: await pack(work, from) })).toEqual([
      expect.stringMatching(/^shop of the packed package does not start: [\s\S]*not-installed/),
      "the command shop says 0.1.0 instead of 0.2.0."
    ])
  })
})

describe("workflows", () => {
  it("have no error that actionlint finds", async () => {
    expect(await checks.workflows({ root })).toEqual([])
  })

  it("with an error are refused", async () => {
    const from = folderOf({
      ".github/workflows/test.yml":
        "on: push\njobs:\n  test:\n    runs-on: ubuntu-24.04\n    steps:\n      - uses: actions/checkout@v4\n        with: { depth: 0 }\n"
    })
    expect(await checks.workflows({ root: from })).toEqual([
      expect.stringMatching(/^\.github\/workflows\/test\.yml:7:17: input "depth" is not defined/)
    ])
    expect(await checks.workflows({ root: work })).toEqual([expect.stringContaining("has no workflow")])
  })
})

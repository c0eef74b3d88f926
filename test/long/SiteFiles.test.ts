import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { pathToFileURL } from "node:url"
import { afterAll, describe, expect, it } from "@effect/vitest"
import type * as Search from "../../scripts/site/assets/search.js"
import { build } from "../../scripts/site/build.mjs"
import { root } from "../support/Nightshift.js"

const folder = mkdtempSync(join(tmpdir(), "nightshift-site-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const site = await build(folder)
const text = (path: string) => readFileSync(join(folder, path), "utf8")
const manifest: { readonly version: string; readonly exports: Readonly<Record<string, { readonly types?: string }>> } =
  JSON.parse(readFileSync(join(root, "package.json"), "utf8"))

/** The names that a file of declarations exports, read without the compiler that makes the pages. */
const namesOf = (file: string) => {
  const source = readFileSync(file, "utf8")
  const named = [
    ...source.matchAll(/^export (?:declare )?(?:abstract )?(?:const|function|class|interface|type) (\w+)/gm)
  ]
  const listed = [...source.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(([, list = ""]) => list.split(","))
  const namespaces = [...source.matchAll(/^export \* as (\w+) from "(\.[^"]+)\.js"/gm)]
  const foreign = [...source.matchAll(/^export \* as (\w+) from "[^.]/gm)]
  return {
    names: [
      ...[...named, ...foreign].map(([, name = ""]) => name),
      ...listed.map((one) => one.replace(/^.* as |^\s*type /, "").trim()).filter((name) => name !== "")
    ],
    namespaces: namespaces.map(([, name = "", path]) => ({ name, file: join(dirname(file), `${path}.d.ts`) }))
  }
}

describe("the website", () => {
  it("has no broken link, no broken anchor and no page that cannot be reached", () => {
    expect(site.pages.length).toBeGreaterThan(100)
    expect(site.broken).toEqual([])
  })

  it("has a first page below 200 kB, complete without scripts", () => {
    const html = text("index.html")
    const loaded = [...html.matchAll(/ (?:href|src)="(assets\/[^"]+)"/g)].map(([, path = ""]) => path)
    const bytes = [...loaded, "index.html", "assets/search.js", "assets/minisearch.js"].reduce(
      (sum, path) => sum + statSync(join(folder, path)).size,
      0
    )
    expect(loaded.length).toBeGreaterThan(3)
    expect(bytes).toBeLessThan(200_000)
    const words = html.replaceAll(/<[^>]+>/g, "")
    expect(words).toContain("nightshift/client")
    expect(words).toContain("Handler.make")
    expect(words).toContain("kill -9")
    expect(words).toContain("at most one live lease")
    expect(words).toContain("two shared arm64 cores")
    expect(words).toContain("Choose something else if")
  })

  it("shows both forms of a program as one group, and says which version it describes", () => {
    const html = text("learn/limits.html")
    expect(html.match(/data-form="promise"/g)?.length).toBe(1)
    expect(html.match(/data-form="effect"/g)?.length).toBe(1)
    expect(html).toContain(`v${manifest.version}<`)
    expect(html).toContain("/edit/main/docs/learn/limits.md")
  })

  it("has one heading of the first level, each landmark once, and no id twice", () => {
    for (const { html, path } of site.pages) {
      const counts = ["<h1", "<main", "<header", "<footer"].map((tag) => html.split(tag).length - 1)
      expect({ path, counts }).toEqual({ path, counts: [1, 1, 1, 1] })
      const ids = [...html.matchAll(/ id="([^"]+)"/g)].map(([, id = ""]) => id)
      expect({ path, repeated: ids.filter((id, at) => ids.indexOf(id) !== at) }).toEqual({ path, repeated: [] })
    }
  })

  it("finds pages", async () => {
    // The built copy, beside the library that it imports.
    const { makeIndex, search }: typeof Search = await import(pathToFileURL(join(folder, "assets/search.js")).href)
    const index = makeIndex(JSON.parse(text("search.json")))
    const found = (query: string) => search(index, query, 5).map(({ url }) => url)
    expect(found("dedupe")[0]).toBe("learn/dedupe.html")
    expect(found("why is my job not running")[0]).toBe("operate/why.html")
    expect(found("pnpm")[0]).toBe("learn/installing.html")
    expect(found("nextjs")[0]).toBe("operate/mission-control-in-your-app.html#nextjs")
    expect(found("rate limit")[0]).toBe("learn/limits.html")
    expect(found("pgbounc")[0]).toBe("operate/postgresql.html#pgbouncer")
    expect(found("retries")).toEqual(found("retry"))
    expect(found("retry")[0]).toBe("learn/handlers.html#retries")
    expect(found("EnqueueOptions")[0]).toBe("api/client.html#enqueueoptions")
    expect(found("xyzzyplugh")).toEqual([])
  })

  it("lists its pages for language models, as Markdown", () => {
    const links = [...text("llms.txt").matchAll(/\]\(([^)]+\.md)\)/g)].map(([, path = ""]) => path)
    expect(links.length).toBeGreaterThan(60)
    expect(links.filter((path) => !existsSync(join(folder, path)))).toEqual([])
    const pages = readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" }).filter(
      (page) => page.endsWith(".md") && !page.startsWith("adr/") && page !== "README.md"
    )
    expect(pages.filter((page) => !links.includes(page))).toEqual([])
    const full = text("llms-full.txt")
    expect(pages.filter((page) => !full.includes(readFileSync(join(root, "docs", page), "utf8").trim()))).toEqual([])
  })

  it("has every name that programs can import", () => {
    const headings = (page: string) => [...text(page).matchAll(/<h3 id="[^"]+">([\w.]+)/g)].map(([, name = ""]) => name)
    const missing: Array<string> = []
    let count = 0
    for (const [key, { types }] of Object.entries(manifest.exports)) {
      if (types === undefined) continue
      const entry = key === "." ? "effect" : key.slice(2).replaceAll("/", "-")
      const { names, namespaces } = namesOf(join(root, types))
      const pages = [
        { page: `api/${entry}.html`, expected: names },
        ...namespaces.map(({ file, name }) => ({
          page: `api/${entry}.${name}.html`,
          expected: namesOf(file).names.map((inner) => `${name}.${inner}`)
        }))
      ]
      // Namespaces within namespaces would need pages of their own.
      expect(namespaces.flatMap(({ file }) => namesOf(file).namespaces)).toEqual([])
      for (const { expected, page } of pages) {
        const shown = headings(page)
        count += expected.length
        missing.push(...expected.filter((name) => !shown.includes(name)).map((name) => `${page}: ${name}`))
      }
    }
    expect(missing).toEqual([])
    expect(count).toBeGreaterThan(400)
  })
})

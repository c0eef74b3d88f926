import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { anchors, isExternal, target } from "../../scripts/site/links.mjs"
import { root } from "../support/Nightshift.js"

const below = (folder: string) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map((file) => `${folder}/${file}`)

const pages = [...readdirSync(root), ...below("docs"), ...below(".github")].filter((file) => file.endsWith(".md"))

/** A page without its blocks of code, in which brackets and # have another meaning. */
const proseOf = (file: string) => readFileSync(join(root, file), "utf8").replaceAll(/^ *```[\s\S]*?^ *```$/gm, "")

const headings = new Map<string, ReadonlySet<string>>()
const headingsOf = (file: string) => {
  const known = headings.get(file)
  if (known !== undefined) return known
  const anchor = anchors()
  const found = [...proseOf(file).matchAll(/^#{1,6} (.+)$/gm)].map(([, text = ""]) =>
    anchor(text.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1"))
  )
  headings.set(file, new Set(found))
  return new Set(found)
}

const linksOf = (file: string) =>
  [...proseOf(file).matchAll(/\]\(([^)\s]+)\)/g)].map(([, href = ""]) => href).filter((href) => !isExternal(href))

describe("links in the documentation", () => {
  it("lead to files that exist, and to headings of pages", () => {
    const links = pages.flatMap((page) => linksOf(page).map((href) => ({ page, href, ...target(page, href) })))
    expect(links.length).toBeGreaterThan(500)
    const broken = links.filter(
      ({ anchor, file }) =>
        !existsSync(join(root, file)) || (anchor !== undefined && file.endsWith(".md") && !headingsOf(file).has(anchor))
    )
    expect(broken.map(({ href, page }) => `${page}: ${href}`)).toEqual([])
  })

  it("reach every page from the contents or from the list of decisions", () => {
    const listed = ["docs/README.md", "docs/adr/README.md"].flatMap((page) =>
      linksOf(page).map((href) => target(page, href).file)
    )
    expect(
      pages.filter((page) => page.startsWith("docs/") && page !== "docs/README.md" && !listed.includes(page))
    ).toEqual([])
  })
})

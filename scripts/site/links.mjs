// Names of headings and files, shared by the site and the tests of the documentation.
import { posix } from "node:path"

/** The anchor of a heading, as GitHub makes it. */
export const slug = (heading) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replace(/\s/g, "-")

/** Makes anchors of one page: the second heading with the same text gets -1, the third -2. */
export const anchors = () => {
  const seen = new Map()
  return (heading) => {
    const name = slug(heading)
    const count = seen.get(name) ?? 0
    seen.set(name, count + 1)
    return count === 0 ? name : `${name}-${count}`
  }
}

export const isExternal = (href) => /^[a-z]+:/i.test(href)

/** The page of a document: docs/README.md is the contents, the README of a folder its index. */
export const pageOf = (file) =>
  file === "docs/README.md"
    ? "contents.html"
    : file
        .slice("docs/".length)
        .replace(/README\.md$/, "index.html")
        .replace(/\.md$/, ".html")

/** Splits a link of a file into the file it leads to, from the root of the repository, and its anchor. */
export const target = (from, href) => {
  const [path = "", anchor] = href.split("#")
  return { file: path === "" ? from : posix.join(posix.dirname(from), decodeURI(path)), anchor }
}

/** Every link and anchor of built pages that leads nowhere. `files` are all paths of the site. */
export const brokenLinks = (pages, files) => {
  const known = new Set(files)
  const ids = new Map(
    pages.map(({ html, path }) => [path, new Set([...html.matchAll(/ id="([^"]+)"/g)].map((m) => m[1]))])
  )
  return pages.flatMap(({ html, path }) =>
    [...html.matchAll(/ (?:href|src|srcset)="([^"]+)"/g)]
      .map(([, href]) => href.replaceAll("&amp;", "&"))
      .filter((href) => !isExternal(href) && !href.startsWith("data:"))
      .filter((href) => {
        const { anchor, file } = target(path, href)
        return !known.has(file) || (anchor !== undefined && anchor !== "" && ids.get(file)?.has(anchor) === false)
      })
      .map((href) => `${path}: ${href}`)
  )
}

// `npm run site [folder]`: builds the website from docs/ into site/ or another folder. Fails if a link leads nowhere.
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, posix, resolve, sep } from "node:path"
import { fileURLToPath } from "node:url"
import { api } from "./api.mjs"
import { home } from "./home.mjs"
import { brokenLinks, isExternal, pageOf, target } from "./links.mjs"
import { all, plain, read, render, root } from "./markdown.mjs"
import { frame } from "./template.mjs"
import { miniSearch } from "./tools.mjs"
import { bundle } from "./try/bundle.mjs"
import { programOf, programs, tryPage } from "./try/page.mjs"

const files = (folder) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))

const text = (file) => readFileSync(join(root, file), "utf8")

const manifest = JSON.parse(text("package.json"))
const site = {
  version: manifest.version,
  repository: manifest.repository.url.replace(/^git\+|\.git$/g, "")
}

const inRepository = (file) => file.slice(root.length).split(sep).join("/")

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1)

/** The navigation: sections, groups and links of docs/README.md, each page once. */
const navigationOf = (contents) => {
  const parts = []
  const seen = new Set()
  for (const token of contents) {
    if (token.type === "heading" && token.depth === 2)
      parts.push({ name: token.text, groups: [{ name: "", items: [] }] })
    else if (token.type === "heading" && token.depth === 3) parts.at(-1)?.groups.push({ name: token.text, items: [] })
    // Links above the first section are part of its introduction.
    else if (parts.length > 0) {
      for (const link of all([token], "link")) {
        const { file } = target("docs/README.md", link.href)
        if (isExternal(link.href) || !file.startsWith("docs/") || !file.endsWith(".md") || seen.has(file)) continue
        seen.add(file)
        parts
          .at(-1)
          ?.groups.at(-1)
          .items.push({ file, page: pageOf(file), title: capital(plain(link.tokens)) })
      }
    }
  }
  for (const part of parts) part.groups = part.groups.filter(({ items }) => items.length > 0)
  return parts.filter(({ groups }) => groups.length > 0)
}

/** Pages that explain how to use something come before decisions and test reports, and those before the API. */
const weightOf = (file) => {
  if (file.startsWith("docs/api/")) return 0.3
  return /^docs\/(README|adr|learn\/(paths|claim|migrating)|operate\/(faults|mutants|soak))/.test(file) ? 0.5 : 1
}

const searchable = (markdown) =>
  markdown
    .replace(/```\w*|\/\*\*?|\*\//g, " ")
    .replace(/\]\([^)]*\)/g, "")
    .replace(/[`*|[\]]|-{3,}|<!--.*?-->/g, " ")
    .replace(/\s+/g, " ")
    .trim()

const document = ([file, markdown], nav) => {
  const page = pageOf(file)
  const tokens = read(markdown)
  const title = plain(tokens.find(({ type }) => type === "heading")?.tokens)
  const description = plain(tokens.find(({ type }) => type === "paragraph")?.tokens).replace(/\s+/g, " ")
  const { headings, html, sections } = render(tokens, { from: file, page, repository: site.repository })
  const isGenerated = file.startsWith("docs/api/")
  return {
    file,
    path: page,
    html: frame({ body: html, description, from: file, headings, isGenerated, nav, page, site, title }),
    found: {
      title,
      url: page,
      weight: weightOf(file),
      sections: sections
        .map((one) => ({ ...one, text: searchable(one.text) }))
        .filter((one) => one.text !== "" || one.heading !== "")
    }
  }
}

/** A list of all pages for language models, with the task that each page is for. */
const llms = (nav, tasks) => {
  const about = text("README.md")
    .split("\n\n")[1]
    .replace(/\s+/g, " ")
    .replace(/\[([^\]]*)\]\([^)]*\)/g, "$1")
  const lines = [
    "# Nightshift",
    "",
    `> ${about}`,
    "",
    `Version ${site.version}. Every page is Markdown; llms-full.txt has all of them.`
  ]
  for (const { groups, name } of nav) {
    lines.push("", `## ${name}`, "")
    for (const { file, title } of groups.flatMap(({ items }) => items)) {
      lines.push(`- [${title}](${file.slice("docs/".length)})${tasks.has(file) ? `: ${tasks.get(file)}` : ""}`)
    }
  }
  return `${lines.join("\n")}\n`
}

/** The first column of the contents: what a reader wants to do, by page. */
const tasksOf = (contents) =>
  new Map(
    contents
      .filter(({ type }) => type === "table")
      .flatMap(({ rows }) => rows)
      .flatMap(([task, pages]) =>
        all(pages.tokens, "link").map((link) => [target("docs/README.md", link.href).file, plain(task.tokens)])
      )
      .reverse()
  )

/** Builds the site. Returns what it wrote and every link that leads nowhere. */
export const build = async (folder) => {
  const contents = () => read(text("docs/README.md"))
  const reference = api(manifest)
  const nav = [...navigationOf(contents()), reference.nav]
  const sources = files(join(root, "docs")).map(inRepository).sort()
  const written = sources.filter((file) => file.endsWith(".md"))
  const markdown = new Map([...written.map((file) => [file, text(file)]), ...reference.pages])
  const documents = [...markdown].map((page) => document(page, nav))
  const first = home(site)
  const title = first.description.replace(/\.$/, "")
  rmSync(folder, { recursive: true, force: true })
  const inBrowser = tryPage(await bundle(join(folder, "assets", "try"), { root, version: site.version }))
  const lone = { headings: [], nav, site }
  const pages = [
    { path: "index.html", html: frame({ ...lone, ...first, kind: "home", page: "index.html", title }) },
    { path: "try.html", html: frame({ ...lone, ...inBrowser, kind: "try", page: "try.html" }) },
    ...documents
  ]
  const ordered = nav.flatMap(({ groups }) => groups.flatMap(({ items }) => items.map(({ file }) => file)))
  const output = new Map([
    ...pages.map(({ html, path }) => [path, html]),
    ...[...markdown].map(([file, content]) => [file.slice("docs/".length), content]),
    ...Object.keys(programs).map((name) => [`assets/try/programs/${name}.js`, programOf(name)]),
    ["versions.json", JSON.stringify([{ version: site.version, path: "" }])],
    ["search.json", JSON.stringify(documents.map(({ found }) => found))],
    ["llms.txt", llms(nav, tasksOf(contents()))],
    ["llms-full.txt", ordered.map((file) => `<!-- ${file} -->\n\n${markdown.get(file).trim()}\n`).join("\n")]
  ])
  for (const [path, content] of output) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  for (const file of sources.filter((file) => !file.endsWith(".md"))) {
    cpSync(join(root, file), join(folder, file.slice("docs/".length)), { recursive: true })
  }
  cpSync(fileURLToPath(new URL("assets", import.meta.url)), join(folder, "assets"), {
    recursive: true,
    filter: (file) => !file.endsWith(".d.ts")
  })
  writeFileSync(join(folder, "assets", "minisearch.js"), miniSearch.replace(/^\/\/# sourceMappingURL.*$/m, ""))
  const paths = files(folder).map((file) =>
    file
      .slice(folder.length + 1)
      .split(sep)
      .join(posix.sep)
  )
  const linked = new Set(
    pages.flatMap(({ html, path }) => [...html.matchAll(/ href="([^"]+)"/g)].map(([, href]) => target(path, href).file))
  )
  const unreachable = documents
    .filter(({ path }) => !linked.has(path))
    .map(({ file }) => `${file}: no page links to it`)
  return {
    folder,
    pages,
    broken: [...brokenLinks(pages, paths), ...unreachable],
    placeholder: site.repository.includes("OWNER")
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { broken, folder, pages, placeholder } = await build(resolve(process.argv[2] ?? join(root, "site")))
  for (const link of broken) console.error(`Broken link: ${link}`)
  if (placeholder) console.warn("package.json still has OWNER in its repository: edit links lead nowhere.")
  console.log(`${pages.length} pages in ${folder}. To read them: npx serve ${folder}`)
  if (broken.length > 0) process.exit(1)
}

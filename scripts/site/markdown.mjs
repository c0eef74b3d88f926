// Markdown of docs/ to HTML: anchors, links between pages, coloured code, and both forms of a program as tabs.
import { existsSync, statSync } from "node:fs"
import { join, posix } from "node:path"
import { fileURLToPath } from "node:url"
import { escape, highlight } from "./highlight.mjs"
import { anchors, isExternal, pageOf, target } from "./links.mjs"
import { tool } from "./tools.mjs"

const { Lexer, Parser, walkTokens } = await tool("marked")

export const root = fileURLToPath(new URL("../..", import.meta.url))

/** Reads a document into tokens. */
export const read = (text) => new Lexer().lex(text)

/** The text of inline tokens, without markup. */
export const plain = (tokens = []) =>
  tokens.map((token) => (token.tokens ? plain(token.tokens) : unescape(token.text ?? ""))).join("")
const unescape = (text) =>
  text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name) => ({ amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" })[name])

/** All tokens of a type, in order and at any depth. */
export const all = (tokens, type) => {
  const found = []
  walkTokens(tokens, (token) => token.type === type && found.push(token))
  return found
}

/** The tokens below a heading, up to the next one of its level. */
export const section = (tokens, heading) => {
  const start = tokens.findIndex((token) => token.type === "heading" && token.text === heading)
  if (start < 0) throw new Error(`No heading "${heading}" was found. The first page of the site shows that section.`)
  const rest = tokens.slice(start + 1)
  const end = rest.findIndex((token) => token.type === "heading" && token.depth <= tokens[start].depth)
  return end < 0 ? rest : rest.slice(0, end)
}

const raw = (html) => ({ type: "html", raw: html, text: html, block: true, pre: false })

const codeBlock = ({ lang = "", text }) => {
  const language = lang.split(" ")[0]
  const label = language === "" ? "" : ` data-language="${language}"`
  return `<div class="code"${label}><pre tabindex="0"><code>${highlight(text, language)}</code></pre></div>\n`
}

/** Where a link of a document leads on the site; files outside docs/ lead to the repository. */
const siteLink = (href, from, page, repository) => {
  if (isExternal(href) || href.startsWith("#")) return href
  const { anchor, file } = target(from, href)
  const end = anchor === undefined ? "" : `#${anchor}`
  if (file.startsWith("docs/")) {
    const path = file.endsWith(".md") ? pageOf(file) : file.slice("docs/".length)
    return `${posix.relative(posix.dirname(page), path)}${end}`
  }
  if (!existsSync(join(root, file))) throw new Error(`${from}: the link ${href} leads to a file that does not exist.`)
  return `${repository}/${statSync(join(root, file)).isDirectory() ? "tree" : "blob"}/main/${file}${end}`
}

const isEffect = (token) => token.type === "paragraph" && /\bwith Effect\b/i.test(token.text) && /:$/.test(token.text)
const isProgram = (token) => token.type === "code" && /^[jt]s$/.test(token.lang ?? "")

/** Joins two programs with a paragraph "With Effect:" between them. Without scripts both are visible, one after another. */
const joinForms = (tokens) => {
  const joined = []
  const solid = tokens.filter(({ type }) => type !== "space")
  for (let at = 0; at < solid.length; at++) {
    const [first, between, second] = solid.slice(at, at + 3)
    if (isProgram(first) && between && isEffect(between) && second && isProgram(second)) {
      if (joined.at(-1)?.text === "With promises:") joined.pop()
      const lone = /^\S*( same)?,? ?with Effect:$/i.test(between.text)
      joined.push({
        type: "forms",
        promise: [first],
        effect: [lone ? raw(`<p class="lone">${between.text}</p>`) : between, second]
      })
      at += 2
    } else joined.push(first)
  }
  return joined
}

const forms = (promise, effect) =>
  `<div class="forms"><section data-form="promise" aria-label="With promises">${promise}</section>` +
  `<section data-form="effect" aria-label="With Effect">${effect}</section></div>\n`

/**
 * Renders tokens of the document `from` for the page `page`. Returns the HTML, the headings, and the text of each
 * section for the search.
 */
export const render = (tokens, { from, page, repository }) => {
  const anchor = anchors()
  const headings = []
  const html = (list) => Parser.parse(list)
  walkTokens(tokens, (token) => {
    if (token.type === "link" || token.type === "image") token.href = siteLink(token.href, from, page, repository)
  })
  const sections = [{ anchor: "", heading: "", text: "" }]
  const block = (token) => {
    if (token.type === "heading") {
      const text = plain(token.tokens)
      const id = anchor(text)
      const inner = Parser.parseInline(token.tokens)
      if (token.depth > 1) headings.push({ depth: token.depth, id, text })
      if (token.depth > 1) sections.push({ anchor: id, heading: text, text: "" })
      const link = token.depth > 1 ? ` <a class="anchor" href="#${id}" aria-label="Link to ${escape(text)}">#</a>` : ""
      return `<h${token.depth} id="${id}">${inner}${link}</h${token.depth}>\n`
    }
    if (token.type === "forms") return forms(token.promise.map(block).join(""), token.effect.map(block).join(""))
    sections.at(-1).text += ` ${token.raw}`
    if (token.type === "code") return codeBlock(token)
    if (token.type === "html" && token.text.startsWith("<!--")) return ""
    if (token.type === "table") {
      // Names of settings may break after an underscore on a phone.
      const table = html([token]).replace(/<code>[A-Z_]+<\/code>/g, (name) => name.replaceAll("_", "_<wbr>"))
      return `<div class="table" tabindex="0" role="region" aria-label="Table">${table}</div>\n`
    }
    walkTokens([token], (nested) => nested.type === "code" && Object.assign(nested, raw(codeBlock(nested))))
    return html([token])
  }
  const body = joinForms(tokens).map(block).join("")
  return { html: body.replaceAll("<img ", '<img loading="lazy" '), headings, sections }
}

import { readdirSync, readFileSync } from "node:fs"
import { join, sep } from "node:path"
import { suggestion } from "../../core/Spelling.js"
import { cut } from "./ToolText.js"

// The manual that the package contains, as sections.

interface Section {
  readonly page: string
  readonly title: string
  /** Empty for the text before the first heading. */
  readonly heading: string
  readonly text: string
}

const pagesIn = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((file) => file.split(sep).join("/"))
    .filter((file) => file.endsWith(".md") && !file.startsWith("adr/"))
    .sort()

const sectionsOf = (folder: string, page: string): ReadonlyArray<Section> => {
  const found: Array<{ heading: string; lines: Array<string> }> = [{ heading: "", lines: [] }]
  let title = page
  let isCode = false
  for (const line of readFileSync(join(folder, page), "utf8").split("\n")) {
    if (line.startsWith("```")) isCode = !isCode
    const [, marks = "", text = ""] = isCode ? [] : (/^(#{1,3}) (.+)$/.exec(line) ?? [])
    if (marks === "#") title = text
    else if (marks !== "") found.push({ heading: text, lines: [] })
    else found.at(-1)?.lines.push(line)
  }
  return found.map(({ heading, lines }) => ({ page, title, heading, text: lines.join("\n").trim() }))
}

const excerptLength = 600

/** The text around the first of the words. */
const excerptOf = (text: string, words: ReadonlyArray<string>): string => {
  const lower = text.toLowerCase()
  const places = words.map((word) => lower.indexOf(word)).filter((place) => place >= 0)
  const start = Math.max(0, Math.min(...places, text.length) - 100)
  const from = start === 0 ? 0 : text.lastIndexOf("\n", start) + 1
  return cut(text.slice(from), excerptLength)
}

/** Pages about other tools and about tests come last. */
const weightOf = (page: string) =>
  /^learn\/(migrating|paths|choosing|workflow-comp)|^operate\/(mutants|faults|soak)/.test(page) ? 0.3 : 1

const countIn = (text: string, word: string) => Math.min(5, text.toLowerCase().split(word).length - 1)

/** The sections that fit best: with most of the words, and in a heading. */
export const search = (folder: string, query: string) => {
  const words = [...new Set(query.toLowerCase().match(/[\p{L}\p{N}_-]{2,}/gu) ?? [])].slice(0, 20)
  return pagesIn(folder)
    .flatMap((page) => sectionsOf(folder, page))
    .map((section) => {
      const { heading, page, text, title } = section
      // A word in a short section says more than one in a long section.
      const share = 1 / (1 + text.length / 2_000)
      const scores = words.map(
        (word) => 6 * countIn(heading, word) + 3 * countIn(title, word) + 2 * share * countIn(text, word)
      )
      const matched = scores.filter((score) => score > 0).length
      const score = weightOf(page) * matched ** 2 * scores.reduce((sum, one) => sum + one, 0)
      return { ...section, score, matched }
    })
    .filter(({ matched }) => matched > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, 5)
    .map(({ heading, page, text }) => ({ heading, page, excerpt: excerptOf(text, words) }))
}

/** A page, or one section of it. The page must be one of the manual: other files are not read. */
export const read = (folder: string, page: string, heading: string | undefined): string => {
  const pages = pagesIn(folder)
  if (!pages.includes(page)) {
    throw new Error(`There is no page ${JSON.stringify(page)}.${suggestion(page, pages)} Search with query.`)
  }
  if (heading === undefined) return readFileSync(join(folder, page), "utf8")
  const sections = sectionsOf(folder, page)
  const found = sections.find((section) => section.heading.toLowerCase() === heading.toLowerCase())
  if (found !== undefined) return `## ${found.heading}\n${found.text}`
  const headings = sections.map((section) => section.heading).filter((each) => each !== "")
  throw new Error(`${page} has no section ${JSON.stringify(heading)}. Sections: ${headings.join(", ")}.`)
}

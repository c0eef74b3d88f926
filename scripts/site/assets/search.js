// Ranks sections of the documentation. Runs in the browser, and in the tests of the site.
import MiniSearch from "./minisearch.js"

const ignored = new Set(
  "a an and are be can do does for from how i if in is it me my of on or the this to with you".split(" ")
)

/** A word without its ending: retry, retries and retried are one word, and so are run and running. */
const stem = (word) => {
  if (word.length < 4) return word
  const base = word.replace(/(ies|ied)$/, "y").replace(/(ing|ed|es|s)$/, "")
  return base.length < 3 ? word : base.replace(/([b-df-hj-np-tv-z])\1$/, "$1").replace(/e$/, "")
}

/** The words of a text. Next.js is also found as nextjs. */
const wordsOf = (text) => [
  ...(text.match(/[\p{L}\p{N}_]+/gu) ?? []),
  ...(text.match(/\p{L}+\.js\b/giu) ?? []).map((name) => name.replace(".", ""))
]

/** Prepares the list of pages for searching. */
export const makeIndex = (pages) => {
  const index = new MiniSearch({
    fields: ["name", "title", "text"],
    storeFields: ["anchor", "heading", "text", "title", "url", "weight"],
    tokenize: wordsOf,
    processTerm: (word) => stem(word.toLowerCase())
  })
  index.addAll(
    pages.flatMap(({ sections, ...page }) =>
      sections.map((section) => ({
        ...page,
        ...section,
        id: `${page.url}#${section.anchor}`,
        name: section.heading || page.title
      }))
    )
  )
  return index
}

/** The best sections for a query, at most `limit`. The last word may be incomplete. */
export const search = (index, query, limit = 10) => {
  const typed = wordsOf(query.toLowerCase())
  const words = typed.some((word) => !ignored.has(word)) ? typed.filter((word) => !ignored.has(word)) : typed
  const found = index.search(words.join(" "), {
    prefix: (_, at, terms) => at === terms.length - 1,
    boost: { name: 4, title: 2 },
    boostDocument: (_, __, { heading, weight }) => weight * (heading === "" ? 1.3 : 1)
  })
  return found.slice(0, limit).map(({ anchor, heading, text, title, url }) => {
    const lower = text.toLowerCase()
    const match = Math.max(0, lower.indexOf(words.find((word) => lower.includes(word)) ?? ""))
    // The excerpt starts at a word, and soon enough to show the match on a phone.
    const start = match < 30 ? 0 : text.indexOf(" ", match - 30) + 1
    const excerpt = `${start > 0 ? "… " : ""}${text.slice(start, start + 160)}`
    return { title, heading, url: anchor === "" ? url : `${url}#${anchor}`, excerpt }
  })
}

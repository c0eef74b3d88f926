// Ranks sections of the documentation. Runs in the browser, and in the tests of the site.

const ignored = new Set(
  "a an and are be can do does for from how i if in is it me my of on or the this to with you".split(" ")
)

/** A word without its ending: retry, retries and retried are one word, and so are run and running. */
const stem = (word) => {
  if (word.length < 4) return word
  const base = word.replace(/(ies|ied)$/, "y").replace(/(ing|ed|es|s)$/, "")
  return base.length < 3 ? word : base.replace(/([b-df-hj-np-tv-z])\1$/, "$1").replace(/e$/, "")
}

export const wordsOf = (text) => (text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? []).map(stem)

/** Prepares the list of pages for searching. */
export const makeIndex = (pages) => {
  const sections = pages.flatMap(({ sections, title, url, weight }) =>
    sections.map(({ anchor, heading, text }) => {
      const counts = new Map()
      for (const word of wordsOf(text)) counts.set(word, (counts.get(word) ?? 0) + 1)
      return {
        title,
        url,
        weight,
        anchor,
        heading,
        text,
        counts,
        names: wordsOf(heading || title),
        page: wordsOf(title)
      }
    })
  )
  const frequency = new Map()
  for (const { counts } of sections)
    for (const word of counts.keys()) frequency.set(word, (frequency.get(word) ?? 0) + 1)
  return { sections, frequency, vocabulary: [...frequency.keys()] }
}

const scoreOf = (section, { rarity, variants, word }) => {
  const has = (list) => list.some((name) => name === word || variants.has(name))
  const named = (has(section.names) ? 8 / Math.sqrt(section.names.length) : 0) + (has(section.page) ? 3 : 0)
  let count = section.counts.get(word) ?? 0
  if (count === 0) for (const variant of variants) count = Math.max(count, (section.counts.get(variant) ?? 0) / 2)
  return rarity * (named + (count === 0 ? 0 : 1 + Math.log2(1 + count) / 2))
}

/** The best sections for a query, at most `limit`. The last word may be incomplete. */
export const search = (index, query, limit = 10) => {
  const typed = (query.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? []).filter(
    (word, _, all) => all.every((one) => ignored.has(one)) || !ignored.has(word)
  )
  if (typed.length === 0) return []
  const terms = typed.map((raw, at) => {
    const word = stem(raw)
    const isLast = at === typed.length - 1 && raw.length > 1
    const variants = new Set(isLast ? index.vocabulary.filter((known) => known !== word && known.startsWith(raw)) : [])
    const most = index.frequency.get(word) ?? 1
    return { word, variants, rarity: Math.log(1 + index.sections.length / most) }
  })
  return index.sections
    .map((section) => {
      const scores = terms.map((term) => scoreOf(section, term))
      const found = scores.filter((score) => score > 0).length
      const total = scores.reduce((sum, score) => sum + score, 0)
      return {
        section,
        score: total * (found / terms.length) ** 3 * section.weight * (section.heading === "" ? 1.2 : 1)
      }
    })
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, limit)
    .map(({ section: { anchor, heading, text, title, url } }) => {
      const at = Math.max(
        0,
        text.toLowerCase().indexOf(typed.find((word) => text.toLowerCase().includes(word)) ?? "") - 60
      )
      return { title, heading, url: anchor === "" ? url : `${url}#${anchor}`, excerpt: text.slice(at, at + 160) }
    })
}

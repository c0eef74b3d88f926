/** One line of the command palette. */
export interface Item {
  readonly group: string
  readonly name: string
  /** Shown beside the name, and searched with it. */
  readonly note?: string
  readonly run: () => void
}

/** Maximum number of lines of a group that matches a text. */
const perGroup = 5

/** How well an item matches: 0 is its beginning, 1 the beginning of a word, 2 any part, 3 all words in any order. */
const rankOf = ({ name, note = "" }: Item, text: string): number | undefined => {
  const [whole, wanted] = [`${name} ${note}`.toLowerCase(), text.toLowerCase()]
  const at = whole.indexOf(wanted)
  if (at === 0) return 0
  if (at > 0) return /[\p{L}\p{N}]/u.test(whole[at - 1] ?? "") ? 2 : 1
  return wanted.split(/\s+/).every((word) => whole.includes(word)) ? 3 : undefined
}

/**
 * The items that match the text, in groups: the group with the best match first. What the service found for the text
 * matches as well as a name that begins with it. `last` is always at the end.
 */
export const pick = (
  text: string,
  items: ReadonlyArray<Item>,
  found: ReadonlyArray<Item>,
  last: ReadonlyArray<Item>
): ReadonlyArray<Item> => {
  if (text === "") return items
  const ranked = [
    ...items.flatMap((item) => {
      const rank = rankOf(item, text)
      return rank === undefined ? [] : [{ item, rank }]
    }),
    ...found.map((item) => ({ item, rank: 0 }))
  ].sort((a, b) => a.rank - b.rank)
  const matching = ranked.map(({ item }) => item)
  const groups = [...new Set(matching.map(({ group }) => group))]
  return [...groups.flatMap((name) => matching.filter(({ group }) => group === name).slice(0, perGroup)), ...last]
}

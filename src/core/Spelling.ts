/** Damerau–Levenshtein distance (optimal string alignment). */
const distance = (left: string, right: string): number => {
  let beforeLast: ReadonlyArray<number> = []
  let last: ReadonlyArray<number> = Array.from({ length: right.length + 1 }, (_, column) => column)
  for (let row = 1; row <= left.length; row += 1) {
    const current = [row]
    for (let column = 1; column <= right.length; column += 1) {
      const same = left[row - 1] === right[column - 1]
      let least = Math.min(
        (last[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (same ? 0 : 1)
      )
      if (row > 1 && column > 1 && left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1]) {
        least = Math.min(least, (beforeLast[column - 2] ?? 0) + 1)
      }
      current.push(least)
    }
    beforeLast = last
    last = current
  }
  return last[right.length] ?? 0
}

/** Longer words are skipped: the distance takes quadratic time. */
const longest = 128

/** Returns the closest known word, if one is similar enough. */
export const closest = (word: string, known: Iterable<string>): string | undefined => {
  if (word.length > longest) return undefined
  const lower = word.toLowerCase()
  const near = [...known]
    .map((candidate) => ({ candidate, far: distance(lower, candidate.toLowerCase()) }))
    .filter(({ candidate, far }) => far <= Math.max(1, Math.floor(Math.max(candidate.length, word.length) / 3)))
    .sort((left, right) => left.far - right.far)
  return near[0]?.candidate
}

/** The sentence " Did you mean …?", or the empty text if no known word is similar enough. */
export const suggestion = (word: string, known: Iterable<string>): string => {
  const near = closest(word, known)
  return near === undefined ? "" : ` Did you mean ${near}?`
}

/** Joins alternatives for a message, as in "done, dead or cancelled". */
export const joinOr = (words: ReadonlyArray<string>): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`

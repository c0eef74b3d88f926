/** Joins alternatives for a message, as in "done, dead or cancelled". */
export const joinOr = (words: ReadonlyArray<string>): string =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`

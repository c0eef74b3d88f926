const halfPair = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

/** The beginning of a text, without what PostgreSQL cannot store. */
export const storableText = (text: string, characters: number): string =>
  // Cut first: the cut itself may leave half of a surrogate pair behind.
  text.slice(0, characters).replaceAll("\u0000", "\ufffd").replace(halfPair, "\ufffd")

/** What `JSON.stringify` makes of the same. */
const unstorableEscape = /(?<!\\)((?:\\\\)*)\\u(?:0000|d[89a-f][0-9a-f]{2})/g

/** A value as JSON text that PostgreSQL can store; one that is too large is kept as the beginning of its text. */
export const storableJson = (value: unknown, characters: number): string | null => {
  const text = JSON.stringify(value)
  if (text === undefined) return null
  const whole = text.length <= characters ? text : JSON.stringify({ beginning: storableText(text, characters) })
  return whole.replace(unstorableEscape, "$1\\ufffd")
}

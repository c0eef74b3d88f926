const halfPair = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

/** Truncates text and replaces characters that PostgreSQL cannot store. */
export const storableText = (text: string, characters: number): string =>
  // Truncates first, because that can split a surrogate pair.
  text.slice(0, characters).replaceAll("\u0000", "\ufffd").replace(halfPair, "\ufffd")

/** The same characters as `JSON.stringify` escapes them. */
const unstorableEscape = /(?<!\\)((?:\\\\)*)\\u(?:0000|d[89a-f][0-9a-f]{2})/g

/**
 * Encodes a value as JSON text that PostgreSQL can store. A value that is too large is replaced by the beginning of its
 * text.
 */
export const storableJson = (value: unknown, characters: number): string | null => {
  const text = JSON.stringify(value)
  if (text === undefined) return null
  const whole = text.length <= characters ? text : JSON.stringify({ beginning: storableText(text, characters) })
  return whole.replace(unstorableEscape, "$1\\ufffd")
}

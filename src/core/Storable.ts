import { Either } from "effect"

// What can be stored: text that PostgreSQL has bytes for, JSON of a bounded size, names that are also fit for a url, a metric
// label and a file. Each check answers with the reason against it, as the end of a sentence that begins with the field.

/** A name of a queue or a schedule. */
export const isPlainName = (name: string): boolean => /^[A-Za-z0-9_.-]{1,64}$/.test(name)

export const plainNameRule = "must be 1 to 64 letters, digits, _, . or -"

/** Half of a surrogate pair, which UTF-8 has no bytes for. */
const loneSurrogate = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/

/** Text that PostgreSQL cannot store. */
export const isUnstorable = (text: string) => text.includes("\u0000") || loneSurrogate.test(text)

/** The same inside of JSON text, where `JSON.stringify` has written it as escapes. */
const unstorableEscape = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f][0-9a-f]{2})/

/** A reason why this cannot stand in the field, or nothing. */
export const faultOfText = (text: string, most: number): string | undefined => {
  if (text.length === 0) return "must not be empty"
  if (text.length > most) return `must be at most ${most} characters long`
  return isUnstorable(text) ? "must not contain NUL or half a surrogate pair" : undefined
}

export const faultOfWhole = (value: number, min: number, max: number): string | undefined =>
  Number.isInteger(value) && value >= min && value <= max ? undefined : `must be a whole number from ${min} to ${max}`

/** A value as JSON text, or why it cannot be that. */
export const jsonText = (value: unknown, mostBytes: number): Either.Either<string, string> => {
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (error) {
    return Either.left(`cannot be written as JSON (${error instanceof Error ? error.message.split("\n")[0] : error})`)
  }
  if (text === undefined) return Either.left("must be a JSON value")
  if (text.length > mostBytes || (text.length > mostBytes / 3 && Buffer.byteLength(text) > mostBytes)) {
    return Either.left(`is larger than ${mostBytes} bytes as JSON`)
  }
  if (text.includes("\\u") && unstorableEscape.test(text)) {
    return Either.left("must not contain NUL or half a surrogate pair")
  }
  return Either.right(text)
}

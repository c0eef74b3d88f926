/** Escapes control characters. Text of others is untrusted and could move the cursor, change colours or forge lines. */
export const printable = (text: string): string =>
  text.replace(/\p{Cc}|\p{Cf}|\p{Zl}|\p{Zp}/gu, (character) => {
    const code = character.codePointAt(0) ?? 0
    return `\\u{${code.toString(16)}}`
  })

/** Escapes multi-line text line by line. Indents all lines but the first, so that none looks like a line of ours. */
export const printableLines = (text: string, indent: number): string =>
  text
    .replaceAll("\t", "  ")
    .split(/\r?\n/)
    .map(printable)
    .join(`\n${" ".repeat(indent)}`)

/** Control characters, and all that no font draws. One selector of a variant, as of an emoji, cannot hide text. */
export const invisible = /\p{Cc}|\p{Cf}|\p{Zl}|\p{Zp}|(?![\ufe0e\ufe0f](?!\p{DI}))\p{DI}/gu

/** Escapes invisible characters. Text of others is untrusted and could move the cursor, change colours, forge lines or hide some. */
export const printable = (text: string): string =>
  text.replace(invisible, (character) => {
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

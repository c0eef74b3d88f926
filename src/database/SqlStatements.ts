/** Comments, strings, quoted names and dollar quotes may hold semicolons; a word may hold dollar signs. */
const token =
  /--[^\n]*|\/\*|E'(?:[^'\\]|''|\\[\s\S])*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(?:[a-z_]\w*)?\$|[a-z_][\w$]*|[\s\S]/gi

/** The end of a block comment. PostgreSQL nests them. */
const endOfComment = (sql: string, from: number): number => {
  const edge = /\/\*|\*\//g
  edge.lastIndex = from
  for (let depth = 1; depth > 0; ) {
    const found = edge.exec(sql)
    if (found === null) return sql.length
    depth += found[0] === "/*" ? 1 : -1
  }
  return edge.lastIndex
}

const endOfDollarQuote = (sql: string, quote: string, from: number): number => {
  const end = sql.indexOf(quote, from)
  return end < 0 ? sql.length : end + quote.length
}

/** The end of a body that follows `begin`, if it is one of `begin atomic`. */
const endOfAtomicBody = (sql: string, from: number): number => {
  if (!/^\s+atomic\b/i.test(sql.slice(from, from + 100))) return from
  const scanner = new RegExp(token)
  scanner.lastIndex = from
  for (let depth = 1; depth > 0; ) {
    const [text] = scanner.exec(sql) ?? []
    if (text === undefined) return sql.length
    if (text === "/*") scanner.lastIndex = endOfComment(sql, scanner.lastIndex)
    else if (/^case$/i.test(text)) depth += 1
    else if (/^end$/i.test(text)) depth -= 1
  }
  return scanner.lastIndex
}

/** Splits a script into statements, without the comments between them. */
export const split = (sql: string): ReadonlyArray<string> => {
  const statements: Array<string> = []
  const scanner = new RegExp(token)
  let start: number | undefined
  for (let match = scanner.exec(sql); match !== null; match = scanner.exec(sql)) {
    const [text] = match
    if (text === ";") {
      if (start !== undefined) statements.push(sql.slice(start, match.index))
      start = undefined
    } else if (text === "/*") {
      scanner.lastIndex = endOfComment(sql, scanner.lastIndex)
    } else if (!text.startsWith("--") && text.trim() !== "") {
      start ??= match.index
      if (text.length > 1 && text.startsWith("$")) scanner.lastIndex = endOfDollarQuote(sql, text, scanner.lastIndex)
      else if (/^begin$/i.test(text)) scanner.lastIndex = endOfAtomicBody(sql, scanner.lastIndex)
    }
  }
  if (start !== undefined) statements.push(sql.slice(start).trimEnd())
  return statements
}

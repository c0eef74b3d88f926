import { Either } from "effect"
import { LineCounter, parseDocument, visit } from "yaml"

/** Limits the output for a text that is not YAML at all. */
const maxProblems = 20

/** Parses YAML into plain values, or returns its problems. Rejects aliases, which could expand to billions of nodes. */
export const parse = (text: string): Either.Either<unknown, ReadonlyArray<string>> => {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, logLevel: "silent", merge: false })
  const at = (offset: number) => {
    const { col, line } = lines.linePos(offset)
    return `line ${line}, column ${col}`
  }
  const problems = [...document.errors, ...document.warnings].map(({ message, pos }) => `${at(pos[0])}: ${message}`)
  visit(document, {
    Alias: (_, { range }) => {
      problems.push(`${at(range?.[0] ?? 0)}: aliases are not supported; repeat the value instead`)
    }
  })
  if (problems.length > 0) return Either.left(problems.slice(0, maxProblems))
  const value: unknown = document.toJS({ maxAliasCount: 0 })
  return Either.right(value)
}

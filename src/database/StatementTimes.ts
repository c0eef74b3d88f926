// How long the server takes, measured where statements leave and answers arrive: waiting for a connection is not part of
// it. Statements that have a name are told apart by it, all others are one.

/** Hears how long each statement took. A plain call: it runs between an answer and whoever waits for it. */
export type StatementListener = (operation: string, millis: number) => void

const others = "other"
const operations = new Map<string, string>([["COMMIT", "commit"]])

const snakeCase = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** Names statements after what they are about and their keys, for those who measure. Returns them, for use in place. */
export const named = <Statements extends Readonly<Record<keyof Statements, string>>>(
  subject: string,
  statements: Statements
): Statements => {
  for (const [key, text] of Object.entries<string>(statements)) operations.set(text, `${subject}_${snakeCase(key)}`)
  return statements
}

/** What a statement is called in measurements. */
export const operationOf = (text: string): string => operations.get(text) ?? others

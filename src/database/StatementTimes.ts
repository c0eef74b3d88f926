// Statement durations, measured from sending the statement to receiving the answer. Waiting for a connection is not
// included. Statements without a name are counted together.

/** Receives the duration of each statement. Called synchronously before the result is returned, so it must be fast. */
export type StatementListener = (operation: string, millis: number) => void

const others = "other"
const operations = new Map<string, string>([["COMMIT", "commit"]])

const snakeCase = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** Names statements for metrics by their group and key. Returns them unchanged. */
export const named = <Statements extends Readonly<Record<keyof Statements, string>>>(
  subject: string,
  statements: Statements
): Statements => {
  for (const [key, text] of Object.entries<string>(statements)) operations.set(text, `${subject}_${snakeCase(key)}`)
  return statements
}

/** Returns the name of a statement in metrics. */
export const operationOf = (text: string): string => operations.get(text) ?? others

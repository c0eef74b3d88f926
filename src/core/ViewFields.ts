/** Names of the fields that hold a time. It is stored as epoch milliseconds; each API has its own form of it. */
export type TimeName = `${string}At` | `${string}Until` | "at" | "since" | "until"

const timeName = /(?:At|Until|^at|^since|^until)$/

/**
 * Returns a function that copies these fields of a stored value, with times in the form that `time` returns and `absent`
 * for fields without a value. Fields that are not named stay internal.
 */
export const copying = (names: ReadonlyArray<string>, time: (millis: number) => unknown, absent: null | undefined) => {
  const fields = names.map((name) => [name, timeName.test(name)] as const)
  return (stored: object): Readonly<Record<string, unknown>> => {
    const view: Record<string, unknown> = {}
    for (const [name, isTime] of fields) {
      const value = (stored as Readonly<Record<string, unknown>>)[name]
      view[name] = value === undefined ? absent : isTime ? time(value as number) : value
    }
    return view
  }
}

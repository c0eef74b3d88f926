// Encodes arrays in PostgreSQL's text format. The driver's encoder escapes every element; ids, numbers and most names
// need no escaping, and a batch holds thousands of them.

const plainElement = /^[A-Za-z0-9_.:-]+$/

/** Encodes numbers, booleans and ids, which never need quotes. */
export const ofPlain = (values: ReadonlyArray<number | boolean | string>): string => `{${values.join(",")}}`

const quoted = (text: string) => `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`

/** Encodes strings; null and undefined become NULL. */
export const ofTexts = (values: ReadonlyArray<string | null | undefined>): string => {
  let text = ""
  for (const value of values) {
    const element =
      value === null || value === undefined
        ? "NULL"
        : plainElement.test(value) && value.toUpperCase() !== "NULL"
          ? value
          : quoted(value)
    text = text === "" ? element : `${text},${element}`
  }
  return `{${text}}`
}

/** Encodes numbers; null and undefined become NULL. */
export const ofNumbers = (values: ReadonlyArray<number | null | undefined>): string =>
  `{${values.map((value) => value ?? "NULL").join(",")}}`

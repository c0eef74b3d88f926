// PostgreSQL's text form of an array. The driver's own encoder escapes every element; ids, numbers and most names need
// none of that, and a batch holds thousands of them.

const plainElement = /^[A-Za-z0-9_.:-]+$/

/** Numbers, booleans and ids, which never need quotes. */
export const ofPlain = (values: ReadonlyArray<number | boolean | string>): string => `{${values.join(",")}}`

const quoted = (text: string) => `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`

/** Texts and absent ones. */
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

/** Numbers and absent ones. */
export const ofNumbers = (values: ReadonlyArray<number | null | undefined>): string =>
  `{${values.map((value) => value ?? "NULL").join(",")}}`

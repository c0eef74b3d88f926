// JSON numbers have arbitrary precision, JavaScript numbers are 64-bit floats. Requests with a number that would reach
// the handler as a different value are rejected while they are still text. A number is accepted if the float, printed
// with the same number of digits, gives the same number. This accepts the output of every language's float formatter:
// 0.1, 0.10000000000000001, 1e21.

/** Formats a path like `jobs[2].dedupe.key`. */
export const fieldOf = (path: ReadonlyArray<PropertyKey>): string =>
  path.reduce<string>((text, step) => {
    if (typeof step === "number") return `${text}[${step}]`
    return text === "" ? String(step) : `${text}.${String(step)}`
  }, "")

/** A number that a 64-bit float cannot represent, and its path of object keys and array indexes. */
export interface LostNumber {
  readonly path: ReadonlyArray<string | number>
  readonly text: string
}

const parts = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/

/** Returns the significant digits and the position of the decimal point. */
const normalized = (text: string) => {
  const [, whole = "", fraction = "", exponent = "0"] = parts.exec(text) ?? []
  const digits = `${whole}${fraction}`.replace(/^0+/, "")
  const leading = whole.length + fraction.length - digits.length
  return { digits: digits.replace(/0+$/, ""), point: whole.length - leading + Number(exponent) }
}

/** The maximum that `toPrecision` accepts. */
const maxDigits = 100

/** PostgreSQL's numbers have no negative zero. */
const negativeZero = /^-0(?:\.0*)?(?:[eE].*)?$/

/**
 * Whether a result may lose what this number loses, as in a process: the sign of a zero, or digits of a fraction. A whole
 * number may be an id.
 */
export const isMinor = ({ text }: LostNumber): boolean => {
  const value = Number(text)
  return negativeZero.test(text) || (text.includes(".") && value !== 0 && Math.abs(value) < 2 ** 53)
}

/** Whether a 64-bit float represents the written number, and PostgreSQL stores it. */
const isKept = (text: string): boolean => {
  if (negativeZero.test(text)) return false
  if (text.length <= 15 && !/[eE]/.test(text)) return true
  const written = normalized(text)
  if (written.digits === "") return true
  const value = Number(text)
  if (!Number.isFinite(value) || value === 0 || written.digits.length > maxDigits) return false
  // Compares with both outputs because the shortest text of a float can differ from the rounded text in the last digit:
  // 30769603042749.062 is exactly 30769603042749.0625.
  return [value.toPrecision(written.digits.length), String(value)].map(normalized).some((printed) => {
    return printed.digits === written.digits && printed.point === written.point
  })
}

const longNumber = /[\d.]{16}|\d[eE][+-]?\d/

const someNegativeZero = /(?:^|[[:,\s])-0(?:\.0*)?(?:$|[\],}\s])/

/**
 * Whether JSON text may contain a number that would change: one that a 64-bit float cannot hold, or a negative zero, which
 * PostgreSQL stores as 0. Shorter numbers without an exponent always fit. A cheap test for every request body, which also
 * matches inside strings.
 */
export const mayLoseNumber = (json: string): boolean =>
  longNumber.test(json) || (json.includes("-0") && someNegativeZero.test(json))

/** Returns the index of the closing quote of the string that starts at `start`. */
const endOfString = (json: string, start: number): number => {
  for (let end = json.indexOf('"', start + 1); ; end = json.indexOf('"', end + 1)) {
    if (end === -1) return json.length
    let backslashes = 0
    while (json.charCodeAt(end - 1 - backslashes) === 0x5c) backslashes += 1
    if (backslashes % 2 === 0) return end
  }
}

const numberAt = /-?\d[\d.eE+-]*/y
const colonAt = /\s*:/y

/** The numbers in valid JSON text that a handler would receive as a different value. */
export function* allLostIn(json: string): Generator<LostNumber, undefined> {
  if (!mayLoseNumber(json)) return
  // The current key of each enclosing object and the current index of each enclosing array.
  const path: Array<string | number> = []
  for (let at = 0; at < json.length; at += 1) {
    const character = json[at]
    if (character === '"') {
      const end = endOfString(json, at)
      colonAt.lastIndex = end + 1
      if (colonAt.test(json)) path[path.length - 1] = JSON.parse(json.slice(at, end + 1)) as string
      at = end
    } else if (character === "{") path.push("")
    else if (character === "[") path.push(0)
    else if (character === "}" || character === "]") path.pop()
    else if (character === ",") {
      const last = path.at(-1)
      if (typeof last === "number") path[path.length - 1] = last + 1
    } else if (character === "-" || (character !== undefined && character >= "0" && character <= "9")) {
      numberAt.lastIndex = at
      const text = numberAt.exec(json)?.[0] ?? character
      if (!isKept(text)) yield { path: [...path], text }
      at += text.length - 1
    }
  }
}

/** The first of them. */
export const lostIn = (json: string): LostNumber | undefined => allLostIn(json).next().value

const shown = (text: string) => (text.length > 40 ? `${text.slice(0, 40)}…` : text)

/** The reason for the rejection of a filter. As a string, the number would match other jobs. */
export const reasonInFilter = ({ text }: LostNumber): string =>
  negativeZero.test(text)
    ? `contains ${shown(text)}, which PostgreSQL stores as 0. Use 0`
    : `contains ${shown(text)}, which a 64-bit float cannot hold. Use another field or a smaller number`

const problemOf = (text: string): string => {
  if (negativeZero.test(text)) return `is ${shown(text)}, which would be stored as 0`
  const value = Number(text)
  const effect = Number.isFinite(value) ? `it would arrive as ${value}` : "it is out of range"
  return `is ${shown(text)}, which a 64-bit float cannot hold (${effect})`
}

/** The reason for the rejection of a value to store. The caller puts the field's name in front. */
export const reasonOf = ({ text }: LostNumber): string =>
  `${problemOf(text)}: send ${negativeZero.test(text) ? "0, or" : "it as"} a string`

/** Like `reasonOf`, for JSON that a person writes in a shell, which removes the quotes around all of it. */
export const reasonInShell = ({ path, text }: LostNumber): string => {
  const string = path.length === 0 ? `'"${shown(text)}"'` : `"${shown(text)}"`
  return `${problemOf(text)}: write ${negativeZero.test(text) ? "0" : `the JSON string ${string}`}`
}

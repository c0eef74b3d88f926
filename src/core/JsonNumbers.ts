// JSON has numbers of any length, JavaScript has 64-bit floats. What a handler would get as another number than was sent is
// refused where it arrives as text. A number passes when a float prints as it at its own number of digits, so whatever any
// language writes of a float passes: 0.1, 0.10000000000000001, 1e21.

/** A number that cannot be kept, and where: the keys and places on the way to it. */
export interface LostNumber {
  readonly path: ReadonlyArray<string | number>
  readonly text: string
}

/** Cheap to ask of every body: nothing shorter, and without an exponent, can be lost. Also hits inside of strings. */
const suspicious = /[\d.]{16}|\d[eE][+-]?\d/

const parts = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/

/** The significant digits, and the position of the decimal point. */
const normalized = (text: string) => {
  const [, whole = "", fraction = "", exponent = "0"] = parts.exec(text) ?? []
  const digits = `${whole}${fraction}`.replace(/^0+/, "")
  const leading = whole.length + fraction.length - digits.length
  return { digits: digits.replace(/0+$/, ""), point: whole.length - leading + Number(exponent) }
}

/** The most digits that JavaScript prints. */
const mostDigits = 100

/** Whether a 64-bit float keeps what is written. */
const isKept = (text: string): boolean => {
  if (text.length <= 15 && !/[eE]/.test(text)) return true
  const written = normalized(text)
  if (written.digits === "") return true
  const value = Number(text)
  if (!Number.isFinite(value) || value === 0 || written.digits.length > mostDigits) return false
  // The shortest text of a float can differ from the rounded one in its last digit: 30769603042749.062 ends in 0625.
  return [value.toPrecision(written.digits.length), String(value)].map(normalized).some((printed) => {
    return printed.digits === written.digits && printed.point === written.point
  })
}

/** Where a string that begins at a quote ends. */
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

/** The first number of valid JSON text that a handler would get as another. */
export const lostIn = (json: string): LostNumber | undefined => {
  if (!suspicious.test(json)) return undefined
  // For each object around us the key we are at, for each array the place.
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
      if (!isKept(text)) return { path, text }
      at += text.length - 1
    }
  }
  return undefined
}

const shown = (text: string) => (text.length > 40 ? `${text.slice(0, 40)}…` : text)

/** Why the number cannot be taken, as the end of a sentence that begins with its field. */
export const reasonOf = ({ text }: LostNumber): string => {
  const value = Number(text)
  const fate = Number.isFinite(value) ? `it would arrive as ${value}` : "it is out of range"
  return `is ${shown(text)}, which a 64-bit float cannot hold (${fate}): send it as a string`
}

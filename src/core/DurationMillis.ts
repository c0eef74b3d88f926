import type { DurationInput, DurationValue } from "./DurationInput.js"

// Durations without Effect, which Mission Control and functions do not load: text as settings and the API have it, and every
// form that code may use.

export const units = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
type Unit = keyof typeof units

const whole = /^-?(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/
const part = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g

export const expected = "a duration like 90s, 30m, 1h30m or 7d"

/** Rounds milliseconds to microseconds: `1.1h` is 3960000.0000000005 otherwise. */
export const rounded = (millis: number): number => Math.round(millis * 1_000) / 1_000

/** Parses a duration like `168h`, `30m`, `90s`, `1h30m` or `-5s` into milliseconds. Returns undefined for any other text. */
export const parse = (text: string): number | undefined => {
  const trimmed = text.trim()
  if (trimmed === "0") return 0
  if (!whole.test(trimmed)) return undefined
  let millis = 0
  for (const [, amount, unit] of trimmed.matchAll(part)) millis += Number(amount) * units[unit as Unit]
  if (!Number.isSafeInteger(Math.round(millis))) return undefined
  return rounded(trimmed.startsWith("-") ? -millis : millis)
}

const words = /^(-?\d+(?:\.\d+)?)\s+(nano|micro|milli|second|minute|hour|day|week)s?$/
const wordUnits = {
  nano: 1e-6,
  micro: 1e-3,
  milli: 1,
  second: units.s,
  minute: units.m,
  hour: units.h,
  day: units.d,
  week: 7 * units.d
} as const

const ofText = (text: string): number | undefined => {
  const short = parse(text)
  if (short !== undefined) return short < 0 ? undefined : short
  const [, amount, unit] = words.exec(text) ?? []
  return unit === undefined ? undefined : Number(amount) * wordUnits[unit as keyof typeof wordUnits]
}

/** A duration of a library, or of any copy of Effect. */
const ofValue = ({ value }: DurationValue): number | undefined => {
  if (value?._tag === "Millis") return value.millis
  if (value?._tag === "Nanos") return Number(value.nanos) / 1e6
  return value?._tag === "Infinity" ? Number.POSITIVE_INFINITY : undefined
}

/** Milliseconds of a duration in code. Like Effect's, it is never negative. Undefined if the value is not a duration, or NaN. */
export const decode = (input: DurationInput): number | undefined => {
  const millis = decodeSigned(input)
  return millis === undefined || Number.isNaN(millis) ? undefined : Math.max(0, millis)
}

const decodeSigned = (input: DurationInput): number | undefined => {
  if (typeof input === "number") return input
  if (typeof input === "bigint") return Number(input) / 1e6
  if (typeof input === "string") return ofText(input)
  if (Array.isArray(input)) {
    const [seconds, nanos]: ReadonlyArray<unknown> = input
    const isPair = input.length === 2 && typeof seconds === "number" && typeof nanos === "number"
    return isPair ? seconds * 1_000 + nanos / 1e6 : undefined
  }
  return typeof input === "object" && input !== null && "value" in input ? ofValue(input) : undefined
}

/** Like `decode`. Throws a RangeError if the value is not a duration. */
export const millisOf = (input: DurationInput): number => {
  const millis = decode(input)
  if (millis !== undefined) return millis
  throw new RangeError(
    `${typeof input === "number" ? input : JSON.stringify(input)} is not ${expected}, or a number of milliseconds.`
  )
}

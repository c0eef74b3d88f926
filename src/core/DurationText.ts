import { Duration, Option, Predicate } from "effect"
import type { DurationInput, DurationValue } from "./DurationInput.js"
import * as DurationMillis from "./DurationMillis.js"

const { rounded, units } = DurationMillis

export type { DurationInput }

export const expected = "a duration like 90s, 30m, 1h30m or 7d"

/** Parses a duration like `168h`, `30m`, `90s`, `1h30m` or `-5s` into milliseconds. Returns none for any other text. */
export const parseMillis = (text: string): Option.Option<number> => Option.fromNullable(DurationMillis.parse(text))

/** Parses a duration. Effect has no negative durations, so negative text returns none. */
export const parse = (text: string): Option.Option<Duration.Duration> =>
  parseMillis(text).pipe(
    Option.filter((millis) => millis >= 0),
    Option.map(Duration.millis)
  )

/** A duration of another library, or of another copy of Effect. */
const ofValue = ({ value }: DurationValue): unknown => {
  if (value?._tag === "Millis") return value.millis
  if (value?._tag === "Nanos") return value.nanos
  return value?._tag === "Infinity" ? Number.POSITIVE_INFINITY : undefined
}

/** Decodes a duration. Throws a RangeError if the text is not a duration. */
export const decode = (input: DurationInput): Duration.Duration => {
  const short = typeof input === "string" ? Option.getOrUndefined(parse(input)) : undefined
  if (short !== undefined) return short
  const isForeign = Predicate.hasProperty(input, "value") && !Duration.isDuration(input)
  const decoded = Duration.decodeUnknown(isForeign ? ofValue(input as DurationValue) : input)
  if (Option.isSome(decoded)) return decoded.value
  throw new RangeError(`${JSON.stringify(input)} is not ${expected}, or a number of milliseconds.`)
}

/** Formats a duration as short text that `parse` accepts: `90m` is `1h30m`, `24h` stays, and `168h` is `7d`. */
export const format = (duration: Duration.DurationInput): string => {
  let rest = rounded(Duration.toMillis(duration))
  if (rest === 0) return "0s"
  if (rest > units.d && rest % units.d === 0) return `${rest / units.d}d`
  let text = ""
  for (const unit of ["h", "m", "s", "ms"] as const) {
    const amount = unit === "ms" ? rounded(rest) : Math.floor(rest / units[unit])
    if (amount > 0) text += `${amount}${unit}`
    rest -= amount * units[unit]
  }
  return text
}

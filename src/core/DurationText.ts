import { Duration, Option } from "effect"
import type { DurationInput } from "./DurationInput.js"
import * as DurationMillis from "./DurationMillis.js"

const { millisOf, rounded, units } = DurationMillis

export { expected } from "./DurationMillis.js"

export type { DurationInput }

/** Parses a duration like `168h`, `30m`, `90s`, `1h30m` or `-5s` into milliseconds. Returns none for any other text. */
export const parseMillis = (text: string): Option.Option<number> => Option.fromNullable(DurationMillis.parse(text))

/** Parses a duration. Effect has no negative durations, so negative text returns none. */
export const parse = (text: string): Option.Option<Duration.Duration> =>
  parseMillis(text).pipe(
    Option.filter((millis) => millis >= 0),
    Option.map(Duration.millis)
  )

/** Decodes a duration. Throws a RangeError if the text is not a duration. */
export const decode = (input: DurationInput): Duration.Duration => {
  if (Duration.isDuration(input)) return input
  return Duration.millis(millisOf(input))
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

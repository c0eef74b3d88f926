// Durations for people, in the same words in Mission Control and on the command line. DurationText has the form of settings.

const units = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"]
] as const

/** Formats seconds in the two largest units: `1 h 27 min`. */
export const span = (seconds: number): string => {
  if (seconds < 1) return seconds <= 0 ? "0 s" : `${Math.max(1, Math.round(seconds * 1000))} ms`
  const index = units.findIndex(([size]) => seconds >= size)
  const [size, name] = units[index] ?? units[3]
  const whole = Math.floor(seconds / size)
  const next = units[index + 1]
  const rest = next === undefined ? 0 : Math.floor((seconds - whole * size) / next[0])
  return rest === 0 || next === undefined ? `${whole} ${name}` : `${whole} ${name} ${rest} ${next[1]}`
}

/** Formats seconds in one unit: `1.5 h`. */
export const shortSpan = (seconds: number): string => {
  const [size, name] = units.find(([size]) => seconds >= size) ?? [0.001, "ms"]
  return seconds === 0 ? "0" : `${Number((seconds / size).toPrecision(2))} ${name}`
}

/** Formats measured seconds with one decimal below a minute. */
export const measured = (seconds: number): string =>
  seconds >= 1 && seconds < 60 ? `${Math.round(seconds * 10) / 10} s` : span(seconds)

/** Seconds to come, rounded to the second of two units: seven days that began a moment ago are still `7 d`. */
const rounded = (seconds: number): number => {
  const index = units.findIndex(([size]) => seconds >= size)
  const [unit] = units[index + 1] ?? units[3]
  return Math.round(seconds / unit) * unit
}

/** Formats the distance between an instant and now, in milliseconds: `3 min ago`, `in 1 d 12 h`, `now`. */
export const age = (millis: number, now: number): string => {
  const seconds = (now - millis) / 1000
  if (Math.abs(seconds) < 1) return "now"
  return seconds > 0 ? `${span(seconds)} ago` : `in ${span(rounded(-seconds))}`
}

// Text of durations as settings and the API have it. Apart from DurationText, so that Mission Control does not load Effect.

export const units = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
type Unit = keyof typeof units

const whole = /^-?(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/
const part = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g

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

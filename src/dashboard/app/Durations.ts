const sizes: Readonly<Record<string, number>> = { s: 1, m: 60, min: 60, h: 3_600, d: 86_400, w: 604_800 }

/** Reads a duration such as `90`, `30s`, `5m`, `1h 30m` or `30d` as seconds; undefined if it is none. */
export const secondsOf = (text: string): number | undefined => {
  const given = text.trim()
  if (/^\d+(\.\d+)?$/.test(given)) return Number(given)
  if (!/^(\d+(\.\d+)?\s*(s|min|m|h|d|w)\s*)+$/.test(given)) return undefined
  const parts = [...given.matchAll(/(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)/g)]
  return parts.reduce((sum, [, count, unit]) => sum + Number(count) * (sizes[unit ?? ""] ?? 0), 0)
}

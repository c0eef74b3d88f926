const sizes: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3_600, d: 86_400 }

/** Reads a duration of the API, such as `30s`, `5m`, `1h30m` or `30d`, as seconds; undefined if the text is none. */
export const secondsOf = (text: string): number | undefined => {
  if (!/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(text)) return undefined
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)]
  return parts.reduce((sum, [, count, unit]) => sum + Number(count) * (sizes[unit ?? ""] ?? 0), 0)
}

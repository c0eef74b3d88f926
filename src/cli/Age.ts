const units = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000]
] as const

const length = (millis: number): string => {
  const [unit, size] = units.find(([, size]) => millis >= size) ?? ["s", 1_000]
  return `${Math.floor(millis / size)}${unit}`
}

/** Formats the distance between an instant and now: `3m ago`, `in 2h`, `now`. */
export const describe = (millis: number, now: number): string => {
  const distance = Math.abs(now - millis)
  if (distance < 1_000) return "now"
  return millis < now ? `${length(distance)} ago` : `in ${length(distance)}`
}

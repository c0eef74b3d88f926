/** Upper bound for an upstream's Retry-After, in seconds. */
const longest = 3600

/** Reads a Retry-After header, which is a number of seconds or a date, as seconds. `now` is in epoch milliseconds. */
export const secondsIn = (header: string | undefined, now: number, most = longest): number | undefined => {
  if (header === undefined || !/^\d{1,9}$| GMT$/.test(header)) return undefined
  const seconds = header.endsWith("T") ? Math.ceil((Date.parse(header) - now) / 1000) : Number(header)
  return Number.isNaN(seconds) ? undefined : Math.min(Math.max(0, seconds), most)
}

/** Upper bound for an upstream's Retry-After, in seconds. */
const longest = 3600

/** Reads a Retry-After header, which is a number of seconds or a date, as seconds. `now` is in epoch milliseconds. */
export const secondsIn = (header: string | undefined, now: number, most = longest): number | undefined => {
  if (header === undefined) return undefined
  const seconds = /^\d{1,9}$/.test(header) ? Number(header) : Math.ceil((Date.parse(header) - now) / 1000)
  return Number.isNaN(seconds) ? undefined : Math.min(Math.max(0, seconds), most)
}

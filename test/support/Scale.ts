/** Whether this is `npm run test:long`: the same journeys at their full size, and the files of test/long. */
export const isLong = process.env.TEST_SIZE === "long"

/** How many of something a journey sends: few in the test command, more in a long run, or what the variable says. */
export const scale = (name: string, size: number | { readonly usual: number; readonly long: number }): number => {
  const chosen = typeof size === "number" ? size : isLong ? size.long : size.usual
  const set = Number(process.env[name] ?? chosen)
  if (!Number.isSafeInteger(set) || set < 1)
    throw new Error(`${name} must be a whole number of at least 1, got ${set}.`)
  return set
}

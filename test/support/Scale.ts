/** Whether this is `npm run test:long`: the journeys at full size, and the files of test/long. */
export const isLong = process.env.TEST_SIZE === "long"

/** The size of a journey: small in the test command, larger in a long run, or the value of the variable. */
export const scale = (name: string, size: number | { readonly usual: number; readonly long: number }): number => {
  const chosen = typeof size === "number" ? size : isLong ? size.long : size.usual
  const set = Number(process.env[name] ?? chosen)
  if (!Number.isSafeInteger(set) || set < 1)
    throw new Error(`${name} must be a whole number of at least 1, got ${set}.`)
  return set
}

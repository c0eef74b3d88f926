// What --jobs means to the other counts.

/** A multiple of it, and never nothing. */
export const times = (factor) => (jobs) => Math.max(1, Math.round(jobs * factor))

/** How much of a whole run it is, for what does not grow beyond one. */
export const share = (jobs) => Math.min(1, jobs / 30_000)

// Scales counts by --jobs.

/** Returns a multiple of --jobs, at least 1. */
export const times = (factor) => (jobs) => Math.max(1, Math.round(jobs * factor))

/** Returns the share of a full run, at most 1. */
export const share = (jobs) => Math.min(1, jobs / 30_000)

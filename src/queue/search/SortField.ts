// Without Effect: programs that use promises see it.

export const sortFields = [
  "created",
  "due",
  "finished",
  "when",
  "duration",
  "kind",
  "queue",
  "state",
  "attempt",
  "priority"
] as const

/** What a list of jobs can be sorted by. */
export type SortField = (typeof sortFields)[number]

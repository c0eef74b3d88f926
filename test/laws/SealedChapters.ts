import { testCodec } from "../support/TestCodec.js"

// Which laws hold with sealed values: all but those that select by values in the database.

export const sealingCodec = testCodec("k2", "k1")

/** Subscribers with `match` and windows with `by` need plain data. */
export const plainCodec = { ...testCodec("k1"), plainEvents: ["*"] }

export const plainChapters = ["events", "waits for events", "events in windows"]

export const sealedChapters = [
  "enqueue",
  "dedupe",
  "claim",
  "finalize",
  "attempts",
  "follow-up",
  "heartbeat, recovery and purge",
  "job administration",
  "search",
  "batches",
  "undo",
  "undo of a requeue with children",
  "undo of actions on executions",
  "depth",
  "workflows",
  "steps that run",
  "values of signals",
  "asks",
  "actions on workflows",
  "ends of workflows",
  "children of workflows",
  "streams of workflows",
  "lifetimes of workflows",
  "lists of workflows",
  "standing"
]

/** Laws about what the database reads in values, or about their size together. */
export const plainLaws = [
  "list filters by payload containment",
  "total counts what matches, up to a cap",
  "the values of a signal after the first have at most 16 MiB together, also in a new journal"
]

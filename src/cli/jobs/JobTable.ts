import type { StoredJob } from "../../core/StoredJob.js"
import * as Age from "../Age.js"
import * as Table from "../Table.js"
import { printable } from "../Terminal.js"

const rowOf = (now: number) => (job: StoredJob) => [
  job.id,
  job.state,
  printable(job.kind),
  job.queue,
  `${job.attempt}/${job.maxAttempts}`,
  Age.describe(job.createdAt, now),
  job.status === "pending" ? Age.describe(job.runAt, now) : "-"
]

/** Renders jobs as a table, one line per job. */
export const render = (jobs: ReadonlyArray<StoredJob>, now: number): string =>
  Table.render(["ID", "STATE", "KIND", "QUEUE", "ATTEMPT", "CREATED", "DUE"], jobs.map(rowOf(now)))

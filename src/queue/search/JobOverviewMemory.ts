import { Effect, Layer } from "effect"
import { withoutTrace } from "../../core/ErrorText.js"
import { stateOf } from "../../core/StoredJob.js"
import type { JobRow } from "../JobRowMemory.js"
import { JobTable } from "../JobTableMemory.js"
import { group } from "./DeadGrouping.js"
import { errorCharacters, JobOverview, type ListedJob } from "./JobOverview.js"

const listedOf = (row: JobRow, now: number): ListedJob => ({
  id: row.id,
  queue: row.queue,
  kind: row.kind,
  state: stateOf(row, now),
  attempt: row.attempt,
  attempts: row.attempts,
  priority: row.priority,
  runAt: row.runAt,
  updatedAt: row.updatedAt,
  reason: row.reason,
  error: row.lastError === undefined ? undefined : withoutTrace(row.lastError).slice(0, errorCharacters)
})

const newestFirst = (a: ListedJob, b: ListedJob) => b.updatedAt - a.updatedAt || (a.id < b.id ? 1 : -1)

const make = (table: typeof JobTable.Service): typeof JobOverview.Service => ({
  deadGroups: (queue) =>
    table.atomically((now) =>
      group(
        [...table.rows()]
          .filter((row) => queue === undefined || row.queue === queue)
          .sort((a, b) => (b.finishedAt ?? 0) - (a.finishedAt ?? 0) || (a.id < b.id ? 1 : -1))
          .flatMap(({ reason, finishedAt = 0, id, kind, lastError }) =>
            reason === undefined || reason === "cancelled" ? [] : [{ id, kind, reason, error: lastError, finishedAt }]
          ),
        now
      )
    ),
  changed: (since, limit) =>
    table.atomically((now) => {
      const jobs = [...table.rows()].filter(({ updatedAt }) => updatedAt >= since).map((row) => listedOf(row, now))
      return { jobs: jobs.sort(newestFirst).slice(0, limit), sampled: jobs.length >= limit }
    }),
  listed: (ids) =>
    table.atomically((now) => {
      const found = [...new Set(ids)].flatMap((id) => table.get(id) ?? [])
      return found.map((row) => listedOf(row, now)).sort(newestFirst)
    })
})

export const layer: Layer.Layer<JobOverview, never, JobTable> = Layer.effect(JobOverview, Effect.map(JobTable, make))

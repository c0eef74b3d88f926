import { Context, Effect, Layer } from "effect"
import type { JobId, Lease } from "../../core/Ids.js"
import { JobTable } from "../JobTableMemory.js"
import { type AttemptLog, JobLogs, keptAttempts, type LogBounds, storedLog } from "./JobLogs.js"

interface LogRow {
  readonly lease: Lease
  readonly count: number
  readonly total: number
  readonly lines: ReadonlyArray<string>
  readonly earlier: ReadonlyArray<string>
}

/** The last of the lines that fit beside those of the run. */
const fitting = (known: ReadonlyArray<string>, { bytes, lines }: LogBounds, own: ReadonlyArray<string>) => {
  const sizeOf = (line: string) => Buffer.byteLength(line) + 1
  let room = bytes - own.reduce((sum, line) => sum + sizeOf(line), 0)
  let first = known.length
  while (first > 0 && known.length - first < lines - own.length) {
    room -= sizeOf(known[first - 1] ?? "")
    if (room < 0) break
    first -= 1
  }
  return known.slice(first)
}

const written = (before: LogRow | undefined, { bounds, count, lease, lines }: AttemptLog): LogRow => {
  if (before === undefined) return { lease, count, total: count, lines, earlier: [] }
  const isSame = before.lease === lease
  if (isSame && before.count >= count) return before
  const earlier = isSame ? before.earlier : [...before.earlier, ...before.lines]
  const total = before.total - (isSame ? before.count : 0) + count
  return { lease, count, total, lines, earlier: fitting(earlier, bounds, lines) }
}

/** The logs of the jobs in memory. `write` is part of a change of the job table. */
export class LogTable extends Context.Tag("nightshift/queue/JobLogsMemory")<
  LogTable,
  {
    readonly write: (log: AttemptLog) => void
    readonly of: (id: JobId) => ReadonlyMap<number, LogRow>
    /** Restores the logs of a deleted job. Part of a change of the job table. */
    readonly restore: (id: JobId, logs: ReadonlyMap<number, LogRow>) => void
  }
>() {
  static readonly layer: Layer.Layer<LogTable, never, JobTable> = Layer.effect(
    LogTable,
    Effect.map(JobTable, (jobs) => {
      const logs = new Map<JobId, ReadonlyMap<number, LogRow>>()
      const set = (id: JobId, rows: ReadonlyMap<number, LogRow> | undefined) => {
        const before = logs.get(id)
        jobs.onRollback(() => void (before === undefined ? logs.delete(id) : logs.set(id, before)))
        if (rows === undefined) logs.delete(id)
        else logs.set(id, rows)
      }
      jobs.onRow((before, after) => {
        if (after === undefined && before !== undefined && logs.has(before.id)) set(before.id, undefined)
      })
      const of = (id: JobId) => logs.get(id) ?? new Map<number, LogRow>()
      return {
        of,
        restore: set,
        write: (log) => {
          if (jobs.get(log.id)?.run?.lease !== log.lease) return
          const kept = [...of(log.id)].filter(([attempt]) => attempt > log.attempt - keptAttempts)
          const rows = new Map(kept)
          set(log.id, rows.set(log.attempt, written(rows.get(log.attempt), log)))
        }
      }
    })
  )
}

export const layer: Layer.Layer<JobLogs, never, JobTable | LogTable> = Layer.effect(
  JobLogs,
  Effect.map(Effect.all([JobTable, LogTable]), ([jobs, table]) => ({
    write: (logs) =>
      jobs.atomically(() => {
        for (const log of logs) table.write(log)
      }),
    read: (id) =>
      jobs.atomically(() =>
        [...table.of(id)]
          .sort(([one], [other]) => one - other)
          .map(([attempt, { earlier, lines, total }]) => storedLog(attempt, total, [...earlier, ...lines]))
      )
  }))
)

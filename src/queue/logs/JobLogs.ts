import { Context, type Effect, Predicate } from "effect"
import type { JobId, Lease } from "../../core/Ids.js"
import * as Setting from "../../core/Setting.js"
import { showableInstant } from "../../core/Storable.js"
import { limits } from "../../core/StoredJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { Level } from "../../telemetry/Level.js"
import type { LoggedLine, StoredLog } from "./LoggedLine.js"

export type { LoggedLine, StoredLog }

export const settings = {
  jobLogs: Setting.boolean(
    { key: "JOB_LOGS", about: "Store what handlers log, to show it with the job. `LOG_LEVEL` applies." },
    true
  ),
  jobLogLines: Setting.integer(
    { key: "JOB_LOG_MAX_LINES", about: "Maximum number of log lines stored per attempt. Older lines are dropped." },
    200,
    { min: 1, max: 10_000 }
  ),
  jobLogBytes: Setting.bytes(
    { key: "JOB_LOG_MAX_SIZE", about: "Maximum size of the log lines stored per attempt, as JSON." },
    "32KiB",
    { min: "16KiB", max: "1MiB" }
  )
}

/** How much is stored of what an attempt logs. */
export interface LogBounds {
  readonly lines: number
  readonly bytes: number
}

export const defaultBounds: LogBounds = { lines: 200, bytes: 32 * 1024 }

/** Logs that one statement stores, and their bytes. */
export const perStatement = { logs: 500, bytes: 1024 * 1024 }

/** About how many bytes a log has. */
export const sizeOf = ({ lines }: AttemptLog): number => lines.reduce((bytes, text) => bytes + text.length, 0)

/** The logs of each statement. */
export const inStatements = (logs: ReadonlyArray<AttemptLog>): ReadonlyArray<ReadonlyArray<AttemptLog>> => {
  const parts: Array<Array<AttemptLog>> = []
  let bytes = Number.POSITIVE_INFINITY
  for (const log of logs) {
    if (bytes >= perStatement.bytes || parts.at(-1)?.length === perStatement.logs) {
      parts.push([])
      bytes = 0
    }
    parts.at(-1)?.push(log)
    bytes += sizeOf(log)
  }
  return parts
}

/** Logs of older attempts are deleted. */
export const keptAttempts = limits.historyEntries

/** What an attempt has logged so far, for the store. */
export interface AttemptLog {
  readonly id: JobId
  readonly lease: Lease
  readonly attempt: number
  /** Lines that were logged, including those that are no longer kept. */
  readonly count: number
  /** The last lines, as `encode` returns them. */
  readonly lines: ReadonlyArray<string>
  readonly bounds: LogBounds
}

/** What handlers log, stored beside their jobs. */
export class JobLogs extends Context.Tag("nightshift/queue/JobLogs")<
  JobLogs,
  {
    /**
     * Stores the lines of runs that hold their lease, in place of what was stored of the same run. Lines of earlier runs of
     * the attempt are kept as far as the bounds allow. A write that a later one has overtaken changes nothing.
     */
    readonly write: (logs: ReadonlyArray<AttemptLog>) => Effect.Effect<void, DatabaseError>

    /** The stored logs of a job, by attempt. Empty if it has logged nothing or does not exist. */
    readonly read: (id: JobId) => Effect.Effect<ReadonlyArray<StoredLog>, DatabaseError>
  }
>() {}

const levels: ReadonlySet<unknown> = new Set<Level>(["trace", "debug", "info", "warn", "error", "fatal"])

const isLevel = (value: unknown): value is Level => levels.has(value)

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined)

/** A stored line. Other programs may write to the table, so anything is read. */
const decode = (line: string): ReadonlyArray<LoggedLine> => {
  try {
    const read: unknown = JSON.parse(line)
    if (!Predicate.isRecord(read)) return []
    const { at, error, fields, level, message, step } = read
    return [
      {
        at: typeof at === "number" ? showableInstant(at) : 0,
        level: isLevel(level) ? level : "info",
        message: text(message) ?? "",
        step: text(step),
        error: text(error),
        fields: Predicate.isRecord(fields) ? fields : undefined
      }
    ]
  } catch {
    return []
  }
}

/** Lines of texts as they are stored, and how many were logged in all. */
export const storedLog = (attempt: number, total: number, texts: ReadonlyArray<string>): StoredLog => {
  const lines = texts.flatMap(decode)
  return { attempt, dropped: Math.max(0, total - lines.length), lines }
}

/** Maximum size of one line, so that a large one does not displace all others. */
const maxLineBytes = 8 * 1024

const cut = (given: string | undefined, characters: number) =>
  given === undefined || given.length <= characters ? given : `${given.slice(0, characters)}…`

/** The line as it is stored: one line of JSON, cut if it is too long. */
export const encode = (line: LoggedLine): string => {
  const whole = JSON.stringify(line)
  let shorter = whole
  for (let characters = 4_096; Buffer.byteLength(shorter) > maxLineBytes; characters = Math.floor(characters / 2)) {
    shorter = JSON.stringify({
      ...line,
      message: cut(line.message, characters),
      step: cut(line.step, characters),
      error: cut(line.error, characters),
      fields: line.fields === undefined ? undefined : { "…": "too large to store" }
    })
  }
  return shorter
}

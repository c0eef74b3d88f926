import { Effect, Layer } from "effect"
import { Database } from "../../database/Database.js"
import { type DatabaseError, mapErrors } from "../../database/DatabaseError.js"
import { named } from "../../database/Statements.js"
import * as SqlArrays from "../SqlArrays.js"
import * as JobLogSql from "./JobLogSql.js"
import { type AttemptLog, defaultBounds, JobLogs, storedLog } from "./JobLogs.js"

interface LogRow {
  readonly attempt: number
  readonly total: number
  readonly lines: string
}

/** `wait` bounds the wait for a locked job; null keeps the setting of the caller's transaction. */
export interface JobLogsPg extends Pick<typeof JobLogs.Service, "read"> {
  readonly write: (logs: ReadonlyArray<AttemptLog>, wait: string | null) => Effect.Effect<void, DatabaseError>
}

export const make = ({ direct, schema, sql }: typeof Database.Service): JobLogsPg => {
  const statements = named("job", JobLogSql.make(schema))
  return {
    write: (logs, wait) => {
      // All logs of a process have the same bounds.
      const { bytes, lines } = logs[0]?.bounds ?? defaultBounds
      return logs.length === 0
        ? Effect.void
        : Effect.asVoid(
            direct.count(statements.writeLogs, [
              SqlArrays.ofPlain(logs.map(({ id }) => id)),
              SqlArrays.ofPlain(logs.map(({ lease }) => lease)),
              SqlArrays.ofPlain(logs.map(({ attempt }) => attempt)),
              SqlArrays.ofPlain(logs.map(({ count }) => count)),
              SqlArrays.ofTexts(logs.map((log) => log.lines.join("\n"))),
              lines,
              bytes,
              wait
            ])
          )
    },
    read: (id) =>
      Effect.map(mapErrors(sql.unsafe<LogRow>(statements.readLogs, [id])), (rows) =>
        rows.map(({ attempt, lines, total }) => storedLog(attempt, total, lines.split("\n")))
      )
  }
}

/** Another transaction has locked one of the jobs. */
const isLocked = (error: DatabaseError) => error._tag === "DatabaseUnavailable" && error.sqlState === "55P03"

const service = (database: typeof Database.Service): typeof JobLogs.Service => {
  const { read, write } = make(database)
  /** Halves a statement of a locked job, so that the logs of the others are stored. */
  const writeFree = (logs: ReadonlyArray<AttemptLog>): Effect.Effect<void, DatabaseError> =>
    Effect.catchIf(
      write(logs, "200ms"),
      (error) => isLocked(error) && logs.length > 1,
      () => {
        const half = logs.length >> 1
        const first = Effect.exit(writeFree(logs.slice(0, half)))
        return Effect.flatMap(first, (exit) => Effect.zipRight(writeFree(logs.slice(half)), exit))
      }
    )
  return { read, write: writeFree }
}

export const layer: Layer.Layer<JobLogs, never, Database> = Layer.effect(JobLogs, Effect.map(Database, service))

import { Effect, Layer } from "effect"
import { Database } from "../../database/Database.js"
import { mapErrors } from "../../database/DatabaseError.js"
import { named } from "../../database/Statements.js"
import * as SqlArrays from "../SqlArrays.js"
import * as JobLogSql from "./JobLogSql.js"
import { defaultBounds, JobLogs, storedLog } from "./JobLogs.js"

interface LogRow {
  readonly attempt: number
  readonly total: number
  readonly lines: string
}

export const make = ({ direct, schema, sql }: typeof Database.Service): typeof JobLogs.Service => {
  const statements = named("job", JobLogSql.make(schema))
  return {
    write: (logs) => {
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
              bytes
            ])
          )
    },
    read: (id) =>
      Effect.map(mapErrors(sql.unsafe<LogRow>(statements.readLogs, [id])), (rows) =>
        rows.map(({ attempt, lines, total }) => storedLog(attempt, total, lines.split("\n")))
      )
  }
}

export const layer: Layer.Layer<JobLogs, never, Database> = Layer.effect(JobLogs, Effect.map(Database, make))

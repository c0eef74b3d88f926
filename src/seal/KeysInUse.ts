import { Effect } from "effect"
import * as Sealed from "../core/Sealed.js"
import type { Database } from "../database/Database.js"
import { type DatabaseError, mapErrors } from "../database/DatabaseError.js"

// Which keys stored values need. The id of a key is the text before the first dot of a sealed value, wherever SQL has copied it to.

/** Columns with values that may be sealed. */
const columns: ReadonlyArray<readonly [table: string, columns: ReadonlyArray<string>]> = [
  ["job", ["payload", "on_dead", "progress", "result"]],
  ["job_undo", ["before", "execution"]],
  ["batch", ["follow_up"]],
  ["follow_up_due", ["payload"]],
  ["event", ["data"]],
  ["workflow_step", ["exit"]],
  ["workflow_deferred", ["exit"]],
  ["workflow_chunk", ["chunks"]]
]

/** Number of unfinished jobs that `ofUnfinished` reads, the longest waiting first. */
export const lookedAt = 10_000

/** Values of one key in one table. */
export interface KeyUse {
  readonly key: string
  readonly table: string
  readonly values: number
}

const pattern = `'"\\$sealed": ?"(${Sealed.keyIds})\\.'`

const keysIn = (columns: ReadonlyArray<string>, from: string) => `
  select m[1] as key, count(*)::int as values
  from ${from} t, regexp_matches(concat_ws(' ', ${columns.map((name) => `t.${name}::text`).join(", ")}), ${pattern}, 'g') m
  group by 1`

/** The keys of all values, finished jobs included. Reads every row of the tables with values. */
export const all = ({ schema, sql }: typeof Database.Service): Effect.Effect<ReadonlyArray<KeyUse>, DatabaseError> =>
  Effect.map(
    Effect.forEach(columns, ([table, names]) =>
      Effect.map(
        mapErrors(sql.unsafe<{ key: string; values: number }>(`${keysIn(names, `${schema}.${table}`)} order by 1`)),
        (rows) => rows.map((row): KeyUse => ({ ...row, table }))
      )
    ),
    (found) => found.flat()
  )

/** The keys that payloads of unfinished jobs need, by the longest waiting of them. */
export const ofUnfinished = ({
  schema,
  sql
}: typeof Database.Service): Effect.Effect<ReadonlyArray<Omit<KeyUse, "table">>, DatabaseError> =>
  mapErrors(
    sql.unsafe<{ key: string; values: number }>(
      `${keysIn(
        ["payload"],
        `(select payload from ${schema}.job where finished_at is null order by queue, priority, run_at, id limit ${lookedAt})`
      )} order by 1`
    )
  )

import { Clock, Effect } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { Continuation } from "../../core/Suspension.js"
import type { Database } from "../../database/Database.js"
import { type DatabaseError, mapErrors } from "../../database/DatabaseError.js"
import type { HeldJob } from "../Queue.js"
import * as SqlArrays from "../SqlArrays.js"
import * as LifetimeSql from "./LifetimeSql.js"
import { LeaseLost } from "./WorkflowErrors.js"
import type { LongJournal, Pins, Workflows } from "./Workflows.js"

/** A run that continues with a new journal. */
export type Continuing = HeldJob & { readonly continues: Continuation }

/** New journals and pins of executions in PostgreSQL. */
export interface LifetimesPg extends Pick<typeof Workflows.Service, "pin" | "pins" | "longJournals"> {
  /** Ends the journals of runs that hold their lease and are not cancelled, in the caller's transaction. */
  readonly renew: (runs: ReadonlyArray<Continuing>) => Effect.Effect<void, DatabaseError>
  /** Leaves returned executions to the release that they are pinned to, in the caller's transaction. */
  readonly park: (ids: ReadonlyArray<JobId>, now: number) => Effect.Effect<void, DatabaseError>
  /** Unpins an execution, or all of a release. Returns how many, and the queues of those that are due now. */
  readonly unpin: (
    id: JobId | undefined,
    release: string | undefined
  ) => Effect.Effect<{ readonly count: number; readonly queues: ReadonlyArray<string> }, DatabaseError>
}

export const make = ({ schema, sql }: Pick<typeof Database.Service, "schema" | "sql">): LifetimesPg => {
  const statements = LifetimeSql.make(schema)
  return {
    renew: (runs) =>
      Effect.gen(function* () {
        const held = [SqlArrays.ofPlain(runs.map(({ id }) => id)), SqlArrays.ofPlain(runs.map(({ lease }) => lease))]
        const found = yield* mapErrors(sql.unsafe<{ id: JobId }>(statements.unlinkChildren, held))
        const open = new Set(found.map(({ id }) => id))
        const all = runs.filter(({ id }) => open.has(id))
        if (all.length === 0) return
        const ids = SqlArrays.ofPlain(all.map(({ id }) => id))
        yield* mapErrors(sql.unsafe(statements.forgetWaits, [ids, yield* Clock.currentTimeMillis]))
        yield* mapErrors(sql.unsafe(statements.numberValues, [ids]))
        yield* mapErrors(sql.unsafe(statements.moveValues, [ids]))
        yield* mapErrors(
          sql.unsafe(statements.renew, [
            ids,
            SqlArrays.ofJson(all.map(({ continues }) => continues.payload)),
            SqlArrays.ofPlain(all.map(({ continues }) => continues.version))
          ])
        )
      }),
    park: (ids, now) => Effect.asVoid(mapErrors(sql.unsafe(statements.park, [SqlArrays.ofPlain(ids), now]))),
    pin: ({ id, lease }, release) =>
      Effect.flatMap(
        mapErrors(sql.unsafe<{ release: string }>(statements.pin, [id, lease, release])),
        ([row]): Effect.Effect<string, LeaseLost> =>
          row === undefined ? new LeaseLost({ id }) : Effect.succeed(row.release)
      ),
    unpin: (id, release) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const rows = yield* mapErrors(
          sql.unsafe<{ queue: string | null }>(statements.unpin, [id ?? null, release ?? null, now])
        )
        return { count: rows.length, queues: rows.flatMap(({ queue }) => queue ?? []) }
      }),
    pins: mapErrors(sql.unsafe<Pins>(statements.pins)),
    longJournals: (most) => mapErrors(sql.unsafe<LongJournal>(statements.longJournals, [most]))
  }
}

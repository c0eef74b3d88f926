import { Clock, Effect } from "effect"
import type { Database } from "../../database/Database.js"
import { type DatabaseError, mapErrors, retryContention } from "../../database/DatabaseError.js"
import type { HeldJob } from "../Queue.js"
import type { make as statementsFor } from "./RunningStepSql.js"
import type { Permit, PermitTurn } from "./StepPermits.js"
import { LeaseLost } from "./WorkflowErrors.js"
import type { Workflows } from "./Workflows.js"

interface TurnRow {
  readonly granted: boolean
  readonly place: number
  readonly woken: ReadonlyArray<string>
}

/** `wake` makes suspended executions due. */
export const make = (
  { outside, sql }: typeof Database.Service,
  statements: ReturnType<typeof statementsFor>,
  wake: (executions: ReadonlyArray<string>) => Effect.Effect<void, DatabaseError>
): Pick<typeof Workflows.Service, "heartbeat" | "takePermit" | "returnPermit"> => {
  // Outside the caller's transaction: the lock on the scope would be held until that ends.
  const turn = (permit: Permit, { id, lease }: HeldJob, returns: boolean) =>
    Effect.gen(function* () {
      const { execution, most, scope, step } = permit
      const now = yield* Clock.currentTimeMillis
      const given = [scope, id, step, lease, most, now, returns]
      const rows = yield* mapErrors(outside(sql.unsafe<TurnRow>(statements.turnPermit, given)))
      const [row] = rows
      if (row === undefined) return yield* Effect.dieMessage("a permit has no result")
      const others = row.woken.filter((each) => each !== execution)
      if (others.length > 0) yield* outside(wake(others))
      return { granted: row.granted, place: row.place, ownIsNext: others.length < row.woken.length }
    }).pipe(retryContention) as Effect.Effect<PermitTurn, DatabaseError>

  return {
    heartbeat: (run, { attempt, details, name, startedAt, timeoutAt }) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const exit = JSON.stringify({ attempt, details })
        const given = [run.id, run.lease, name, startedAt, timeoutAt ?? null, now, exit]
        const rows = yield* mapErrors(outside(sql.unsafe(statements.storeHeartbeat, given)))
        if (rows.length === 0) return yield* new LeaseLost({ id: run.id })
      }),
    takePermit: (run, permit) => turn(permit, run, false),
    returnPermit: (run, permit) => turn(permit, run, true)
  }
}

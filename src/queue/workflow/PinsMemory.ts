import { Effect, Either } from "effect"
import { isExecution, type JobRow } from "../JobRowMemory.js"
import type { JobTable } from "../JobTableMemory.js"
import type { HeldJob } from "../Queue.js"
import { longJournal } from "./LifetimeSql.js"
import type { ExecutionNotFound, LeaseLost } from "./WorkflowErrors.js"
import type { Pins, Workflows } from "./Workflows.js"
import type { WorkflowTable } from "./WorkflowTableMemory.js"

/** Pins and long journals of executions in memory. */
export const make = (
  jobs: typeof JobTable.Service,
  table: typeof WorkflowTable.Service,
  {
    find,
    held
  }: {
    readonly find: (execution: string) => Either.Either<JobRow, ExecutionNotFound>
    readonly held: (run: HeldJob) => Either.Either<JobRow, LeaseLost>
  }
): Pick<typeof Workflows.Service, "pin" | "unpin" | "pins" | "longJournals"> => ({
  pin: (run, release) =>
    Effect.flatten(jobs.atomically(() => Either.map(held(run), ({ id }) => table.lifetimes.pin(id, release)))),
  unpin: (which) =>
    Effect.gen(function* () {
      const only = "execution" in which ? (yield* find(which.execution)).id : undefined
      return yield* jobs.atomically((now) => {
        const chosen = table.lifetimes
          .pinned()
          .filter(({ release, row }) =>
            only === undefined ? "release" in which && release === which.release : row.id === only
          )
        for (const { row } of chosen) {
          if (table.lifetimes.isParked(row))
            jobs.put({ ...row, woken: (row.woken ?? 0) + 1, runAt: Math.min(row.runAt, now) })
          table.lifetimes.unpin(row.id)
        }
        return chosen.length
      })
    }),
  pins: jobs.atomically(() => {
    const found = new Map<string, Pins>()
    for (const { release, row } of table.lifetimes.pinned()) {
      const { count = 0, executions = [] } = found.get(`${row.kind} ${release}`) ?? {}
      const some = [...executions, row.dedupe?.key ?? row.id].slice(0, 3)
      found.set(`${row.kind} ${release}`, { workflow: row.kind, release, count: count + 1, executions: some })
    }
    return [...found.values()]
  }),
  longJournals: (most) =>
    jobs.atomically(() =>
      [...jobs.rows()]
        .filter((row) => isExecution(row) && row.finishedAt === undefined)
        .map((row) => ({ execution: row.dedupe?.key ?? row.id, steps: table.stepsOf(row.id).at(-1)?.sequence ?? 0 }))
        .filter(({ steps }) => steps >= longJournal)
        .sort((a, b) => b.steps - a.steps)
        .slice(0, most)
    )
})

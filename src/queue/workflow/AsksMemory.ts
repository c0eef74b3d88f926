import { Effect, Either } from "effect"
import type { JobRow } from "../JobRowMemory.js"
import type { JobTable } from "../JobTableMemory.js"
import type { HeldJob } from "../Queue.js"
import { type AskEnd, type AskExit, rowOf } from "./Asks.js"
import { ExecutionEnded, type ExecutionNotFound, type LeaseLost } from "./WorkflowErrors.js"
import { admitted, admittedAsk, type Workflows } from "./Workflows.js"
import type { WorkflowTable } from "./WorkflowTableMemory.js"

interface Uses {
  readonly find: (execution: string) => Either.Either<JobRow, ExecutionNotFound>
  readonly held: (run: HeldJob) => Either.Either<JobRow & { readonly execution: string }, LeaseLost>
  readonly stateOf: (row: JobRow, now: number) => string
}

/** Asks and their answers in memory. */
export const make = (
  jobs: typeof JobTable.Service,
  table: typeof WorkflowTable.Service,
  { find, held, stateOf }: Uses
): Pick<typeof Workflows.Service, "ask" | "answer" | "awaitAnswer"> => ({
  ask: (given) =>
    Effect.flatMap(admittedAsk(given), (text) =>
      Effect.flatten(
        jobs.atomically((now) =>
          Either.flatMap(find(given.execution), (row): Either.Either<void, ExecutionEnded> => {
            const execution = row.dedupe?.key ?? given.execution
            if (row.finishedAt !== undefined)
              return Either.left(new ExecutionEnded({ execution: given.execution, state: stateOf(row, now) }))
            const name = rowOf(given)
            if (table.deferred(execution, "ask", name) === undefined) {
              const ends = { dueAt: undefined, completedAt: undefined, remaining: undefined }
              const marks = { waiting: false, early: false, createdAt: now }
              table.putDeferred({ ...ends, ...marks, execution, kind: "ask", name, exit: JSON.parse(text) })
            }
            table.wake(execution, now)
            return Either.right(undefined)
          })
        )
      )
    ),
  answer: (run, name, given) =>
    Effect.flatMap(admitted("answer", name, given), (text) =>
      Effect.flatten(
        jobs.atomically((now) =>
          Either.map(held(run), ({ execution }) => {
            const ask = table.deferred(execution, "ask", name)
            if (ask === undefined || ask.completedAt !== undefined) return
            table.putDeferred({
              ...ask,
              completedAt: now,
              exit: { ...(ask.exit as AskExit), answer: JSON.parse(text) }
            })
          })
        )
      )
    ),
  awaitAnswer: (given) =>
    Effect.flatMap(find(given.execution), (row) =>
      Effect.async<AskEnd>((resume) => {
        const check = () => {
          const answered = table.deferred(row.dedupe?.key ?? given.execution, "ask", rowOf(given))
          const job = jobs.get(row.id)
          const answer = (answered?.exit as AskExit | undefined)?.answer
          const isOpen = answered !== undefined && job !== undefined && job.finishedAt === undefined
          if (answer === undefined && isOpen) return
          stop()
          resume(Effect.succeed(answer ?? "ended"))
        }
        const stop = jobs.onChange(check)
        check()
        return Effect.sync(stop)
      })
    )
})

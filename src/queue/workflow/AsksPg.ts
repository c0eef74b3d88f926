import { Clock, Effect, Exit } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import { type DatabaseError, mapErrors, retryContention } from "../../database/DatabaseError.js"
import * as SqlArrays from "../SqlArrays.js"
import { topics as endTopics } from "../search/JobEnds.js"
import * as JobWaits from "../search/JobWaits.js"
import { type Answer, type AskEnd, rowOf } from "./Asks.js"
import { valuesOf } from "./Execution.js"
import * as ExecutionRows from "./ExecutionRows.js"
import { ExecutionEnded, type ExecutionNotFound, LeaseLost } from "./WorkflowErrors.js"
import { admitted, admittedAsk, type Workflows } from "./Workflows.js"

interface Uses {
  readonly find: (execution: string) => Effect.Effect<JobId, ExecutionNotFound | DatabaseError>
  readonly stateOf: (id: JobId) => Effect.Effect<string, ExecutionNotFound | DatabaseError>
  readonly notify: (queues: ReadonlyArray<string>) => Effect.Effect<void, DatabaseError>
}

/** Topics of hints: jobs whose answers a caller awaits, and jobs that have answered. */
const topics = { awaited: "asking", changed: "answered" }

/** The request is the name of the row of an ask. */
type Waiters = JobWaits.Waiters<string, AskEnd, DatabaseError>

/** Asks and their answers, and the values that code has set. Callers wait for an answer by notification, as they do for the end of a job. */
export const make = (
  { sql }: Pick<typeof Database.Service, "sql">,
  statements: Readonly<Record<"storeAsk" | "storeAnswer" | "endedAsks" | "setValues", string>>,
  { find, notify, stateOf }: Uses
) =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    const changes = yield* JobWaits.makeChanges(topics)

    const read = (waiters: Waiters) => {
      const asks = [...waiters].flatMap(([job, all]) => [...all].map((waiter) => ({ job, waiter })))
      return mapErrors(
        sql.unsafe<{ readonly place: number; readonly answer: Answer | null }>(statements.endedAsks, [
          SqlArrays.ofPlain(asks.map(({ job }) => job)),
          SqlArrays.ofTexts(asks.map(({ waiter }) => waiter.request))
        ])
      ).pipe(
        Effect.match({
          onFailure: (error) => {
            for (const { waiter } of asks) waiter.answer(Exit.fail(error))
          },
          onSuccess: (rows) => {
            for (const { answer, place } of rows) asks[place - 1]?.waiter.answer(Exit.succeed(answer ?? "ended"))
          }
        })
      )
    }

    const { wait } = yield* JobWaits.make<string, AskEnd, DatabaseError>({
      name: "answers",
      announcedOn: [topics.awaited, endTopics.awaited],
      changedOn: [topics.changed, endTopics.changed],
      perQuery: 500,
      read
    })

    const ask: typeof Workflows.Service.ask = (given) =>
      Effect.gen(function* () {
        const text = yield* admittedAsk(given)
        const id = yield* find(given.execution)
        const now = yield* Clock.currentTimeMillis
        const stored = sql.unsafe<{ readonly queue: string }>(statements.storeAsk, [id, rowOf(given), text, now])
        const [row] = yield* retryContention(mapErrors(stored))
        if (row === undefined)
          return yield* new ExecutionEnded({ execution: given.execution, state: yield* stateOf(id) })
        yield* notify([row.queue])
      })

    const answer: typeof Workflows.Service.answer = (run, name, given) =>
      Effect.gen(function* () {
        const text = yield* admitted("answer", name, given)
        const now = yield* Clock.currentTimeMillis
        const written = sql.unsafe(statements.storeAnswer, [run.id, run.lease, name, text, now])
        const rows = yield* retryContention(mapErrors(written))
        if (rows.length === 0) return yield* new LeaseLost({ id: run.id })
        const awaited = changes.awaited([run.id])
        if (awaited.length > 0) yield* Effect.forkIn(Effect.ignore(changes.publish(awaited)), scope)
      })

    const awaitAnswer: typeof Workflows.Service.awaitAnswer = (given) =>
      Effect.flatMap(find(given.execution), (job) => wait(job, rowOf(given)))

    const values: typeof Workflows.Service.values = (execution) =>
      Effect.gen(function* () {
        const id = yield* find(execution)
        const rows = yield* mapErrors(sql.unsafe<ExecutionRows.StepRow>(statements.setValues, [id]))
        return valuesOf(rows.map(ExecutionRows.toStep))
      })

    return { ask, answer, awaitAnswer, values }
  })

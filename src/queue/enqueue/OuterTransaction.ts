import { Effect, Either } from "effect"
import type { IdGenerator } from "../../core/Ids.js"
import { OuterTransactionFailed } from "../JobErrors.js"
import { admitAll, type NewJob, type StampedJobs } from "../NewJob.js"
import type { Enqueued, OuterError, RunStatement } from "../Queue.js"
import { type Answer, enqueuedOf, refusalOf, request } from "./EnqueueJobs.js"

// Enqueues in a transaction of another PostgreSQL library. All such libraries can run a statement with a text parameter.

const given = "$1::text::jsonb"

const textOf = (schema: string, request: string) =>
  `select place, id::text as id, outcome, note, pg_current_xact_id()::text as transaction from ${schema}.enqueue_jobs(${request})`

/** Without a request the function stores nothing. A savepoint has the id of its transaction. */
const within = (schema: string) => (transaction: string) =>
  textOf(schema, `case when pg_current_xact_id_if_assigned() = '${BigInt(transaction)}'::xid8 then ${given} end`)

const answersOf = (
  rows: ReadonlyArray<Answer>,
  jobs: StampedJobs
): Effect.Effect<ReadonlyArray<Enqueued>, OuterError> => {
  const refusal = refusalOf(rows, jobs)
  if (refusal !== undefined) return Effect.fail(refusal)
  const answers: Array<Enqueued> = []
  for (const row of rows) answers[row.place] = enqueuedOf(row)
  return answers.length === jobs.length && rows.length === jobs.length
    ? Effect.succeed(answers)
    : new OuterTransactionFailed({ error: `the statement returned ${rows.length} rows for ${jobs.length} jobs` })
}

/** Stores jobs in a transaction of another library. */
export const enqueue =
  (schema: string, ids: IdGenerator, run: RunStatement) =>
  (jobs: ReadonlyArray<NewJob>): Effect.Effect<ReadonlyArray<Enqueued>, OuterError> =>
    Effect.clockWith((clock): Effect.Effect<ReadonlyArray<Enqueued>, OuterError> => {
      const now = clock.unsafeCurrentTimeMillis()
      const admitted = admitAll(jobs, { ids, now })
      if (Either.isLeft(admitted)) return Effect.fail(admitted.left)
      const notify = [...new Set(admitted.right.map(({ queue }) => queue))]
      const parameter = request(admitted.right, now, { notify })
      return Effect.tryPromise({
        try: () => run({ text: textOf(schema, given), within: within(schema), parameter }),
        catch: (error) => new OuterTransactionFailed({ error })
      }).pipe(
        Effect.flatMap((rows) => answersOf(rows as ReadonlyArray<object> as ReadonlyArray<Answer>, admitted.right))
      )
    })

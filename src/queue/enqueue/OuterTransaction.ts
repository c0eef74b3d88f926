import { Effect, Either } from "effect"
import type { IdGenerator, JobId } from "../../core/Ids.js"
import { JobIdTaken, OuterTransactionFailed, QueueFull } from "../JobErrors.js"
import { Enqueued, type OuterError, type RunStatement } from "../Queue.js"
import { type AdmittedJob, admitAll, type NewJob } from "./NewJob.js"

// Enqueues in a transaction of another PostgreSQL library. All such libraries can run a statement, but they encode arrays
// and JSON differently, so a single statement with one text parameter does all the work.

/** A job as JSON text for the SQL function. Payload, follow-up and meta are JSON text already. */
const written = (job: AdmittedJob, place: number, ids: IdGenerator, now: number): string => {
  const fields = {
    place,
    id: job.id ?? ids.job(now),
    own_id: job.id !== undefined,
    queue: job.queue,
    kind: job.kind,
    version: job.version,
    priority: job.priority,
    run_at: job.runAt ?? now,
    max_attempts: job.maxAttempts,
    key: job.key,
    dedupe_key: job.dedupeKey,
    dedupe_scope: job.dedupeScope,
    dedupe_until: job.dedupeWindow === undefined ? null : now + job.dedupeWindow,
    replace: job.replace,
    woken: job.woken
  }
  const { meta, onDead, payload } = job
  return `${JSON.stringify(fields).slice(0, -1)},"payload":${payload},"on_dead":${onDead},"meta":${meta}}`
}

const answerOf = (
  rows: ReadonlyArray<Readonly<Record<string, unknown>>>,
  jobs: number
): Effect.Effect<ReadonlyArray<Enqueued>, JobIdTaken | QueueFull | OuterTransactionFailed> => {
  const [first] = rows
  if (first?.outcome === "queue_full") {
    const [queue = "", cap = ""] = String(first.note).split(" ")
    return new QueueFull({ queue, cap: Number(cap) })
  }
  if (first?.outcome === "id_taken") {
    return new JobIdTaken({ index: Number(first.place), jobs, id: String(first.id) as JobId })
  }
  const answers: Array<Enqueued> = []
  for (const { id, outcome, place } of rows) {
    const answer = { id: String(id) as JobId }
    answers[Number(place)] = outcome === "deduplicated" ? Enqueued.Deduplicated(answer) : Enqueued.Enqueued(answer)
  }
  return answers.length === jobs && rows.length === jobs
    ? Effect.succeed(answers)
    : new OuterTransactionFailed({ error: `the statement returned ${rows.length} rows for ${jobs} jobs` })
}

const given = "$1::text::jsonb"

const textOf = (schema: string, request: string) =>
  `select place, id::text as id, outcome, note, pg_current_xact_id()::text as transaction from ${schema}.enqueue_jobs(${request})`

/** Without a request the function stores nothing. A savepoint has the id of its transaction. */
const within = (schema: string) => (transaction: string) =>
  textOf(schema, `case when pg_current_xact_id_if_assigned() = '${BigInt(transaction)}'::xid8 then ${given} end`)

/** Stores jobs in a transaction of another library. */
export const enqueue =
  (schema: string, ids: IdGenerator, run: RunStatement) =>
  (jobs: ReadonlyArray<NewJob>): Effect.Effect<ReadonlyArray<Enqueued>, OuterError> =>
    Effect.clockWith((clock): Effect.Effect<ReadonlyArray<Enqueued>, OuterError> => {
      const admitted = admitAll(jobs)
      if (Either.isLeft(admitted)) return Effect.fail(admitted.left)
      const now = clock.unsafeCurrentTimeMillis()
      const request = `{"now":${now},"jobs":[${admitted.right.map((job, place) => written(job, place, ids, now)).join(",")}]}`
      if (jobs.length === 0) return Effect.succeed([])
      return Effect.tryPromise({
        try: () => run({ text: textOf(schema, given), within: within(schema), parameter: request }),
        catch: (error) => new OuterTransactionFailed({ error })
      }).pipe(Effect.flatMap((rows) => answerOf(rows, jobs.length)))
    })

import { Effect } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import { type DatabaseError, mapErrors } from "../../database/DatabaseError.js"
import { OuterTransactionFailed } from "../JobErrors.js"
import type { NewJob } from "../NewJob.js"
import type { Enqueued, HeldJob, Queue, RunStatement } from "../Queue.js"
import type { TagChanges, Tags } from "./Execution.js"
import { jobOf } from "./ExecutionJob.js"
import { admitted, changed } from "./Tags.js"
import { ExecutionNotFound, LeaseLost } from "./WorkflowErrors.js"
import type { NewExecution, Workflows } from "./Workflows.js"

/** Starts executions, with their tags, and changes the tags. */
export const make = (
  { schema, sql, transaction }: Pick<typeof Database.Service, "schema" | "sql" | "transaction">,
  queue: typeof Queue.Service,
  find: (execution: string) => Effect.Effect<JobId, ExecutionNotFound | DatabaseError>
): Pick<typeof Workflows.Service, "start" | "startInside" | "tag" | "tagHeld"> => {
  const call = `select ${schema}.set_tags($1::text::jsonb) as found`
  const lock = `select true from ${schema}.job where id = $1 and ($2::uuid is null or lease = $2::uuid) for no key update`
  const current = `select coalesce(jsonb_object_agg(name, value), '{}') as tags from ${schema}.workflow_tag where job_id = $1`

  const set = (id: JobId, tags: TagChanges) =>
    mapErrors(sql.unsafe<{ readonly found: boolean }>(call, [JSON.stringify({ id, tags })]))

  /** Sets tags in a transaction of another library. */
  const setInside = (run: RunStatement, id: JobId, tags: Tags) => {
    const text = `${call}, pg_current_xact_id()::text as transaction`
    const within = (given: string) => `${text} where pg_current_xact_id_if_assigned() = '${BigInt(given)}'::xid8`
    return Effect.tryPromise({
      try: () => run({ text, within, parameter: JSON.stringify({ id, tags }) }),
      catch: (error) => new OuterTransactionFailed({ error })
    })
  }

  /** Changes the tags of a job that exists, and with a lease, only while the job is held under it. */
  const change = <E>(id: JobId, lease: HeldJob["lease"] | undefined, changes: TagChanges, missing: () => E) =>
    transaction(
      Effect.gen(function* () {
        // Without the lock, concurrent calls could set more tags than are allowed.
        const [locked] = yield* mapErrors(sql.unsafe(lock, [id, lease ?? null]))
        if (locked === undefined) return yield* Effect.fail(missing())
        const [before] = yield* mapErrors(sql.unsafe<{ readonly tags: Tags }>(current, [id]))
        const after = yield* changed(before?.tags ?? {}, changes)
        const [row] = yield* set(id, changes)
        return row?.found === true ? after : yield* Effect.fail(missing())
      })
    )

  /** Stores the job with the first function, and its tags with the second. */
  const started = <E, E2>(
    given: NewExecution,
    store: (jobs: ReadonlyArray<NewJob>) => Effect.Effect<ReadonlyArray<Enqueued>, E>,
    tag: (id: JobId, tags: Tags) => Effect.Effect<unknown, E2>
  ) =>
    Effect.gen(function* () {
      const tags = yield* admitted(given.tags ?? {}, false)
      const [answer] = yield* store([jobOf(given)])
      if (answer === undefined) return yield* Effect.dieMessage("the queue returned no result")
      if (answer.outcome === "enqueued" && Object.keys(tags).length > 0) yield* tag(answer.id, tags)
      return answer
    })

  return {
    start: (given) => {
      const whole = started(given, queue.enqueue, set)
      return given.tags === undefined ? whole : transaction(whole)
    },
    startInside: (run, given) =>
      started(
        given,
        (jobs) => queue.enqueueInside(run, jobs),
        (id, tags) => setInside(run, id, tags)
      ),

    tag: (execution, changes) =>
      Effect.gen(function* () {
        yield* admitted(changes, true)
        const id = yield* find(execution)
        return yield* change(id, undefined, changes, () => new ExecutionNotFound({ execution }))
      }),

    tagHeld: ({ id, lease }, changes) =>
      Effect.zipRight(
        admitted(changes, true),
        change(id, lease, changes, () => new LeaseLost({ id }))
      )
  }
}

import { Context, Effect, Exit, Layer } from "effect"
import { isId, type JobId } from "../../core/Ids.js"
import type { StoredJob } from "../../core/StoredJob.js"
import { Database } from "../../database/Database.js"
import { type DatabaseError, mapErrors } from "../../database/DatabaseError.js"
import type { Hints } from "../../database/Hints.js"
import { hot, named, opaque } from "../../database/Statements.js"
import type { AttemptEnd } from "../AttemptEnd.js"
import { JobNotFound } from "../JobErrors.js"
import { storedColumns } from "../JobSql.js"
import * as SqlArrays from "../SqlArrays.js"
import { type StoredJobRow, toStoredJob } from "../StoredJobRow.js"
import * as JobWaits from "./JobWaits.js"

/** Topics of hints: jobs whose end a caller awaits, and jobs that ended. */
export const topics = { awaited: "awaited", changed: "ended" }

type Waiters = JobWaits.Waiters<undefined, StoredJob, JobNotFound | DatabaseError>

type Found = { readonly awaited: JobId } & (StoredJobRow | { readonly id: null })

const endedJobs = (schema: string) => `
  select awaited.id as awaited, j.*
  from unnest(${opaque("$1::uuid[]")}) as awaited(id)
  -- One lookup per job: a plan that is prepared for many would read the whole table.
  left join lateral (select ${storedColumns} from ${schema}.job j where j.id = awaited.id limit 1) j on true
  where j.id is null or j.status in ('done', 'dead')`

/** The ends of jobs that callers of any process await. */
export class JobEnds extends Context.Tag("nightshift/queue/JobEnds")<
  JobEnds,
  {
    /** Waits until the job is done or dead. */
    readonly wait: (id: JobId) => Effect.Effect<StoredJob, JobNotFound | DatabaseError>

    /** Notifies the callers that wait for one of these jobs. In a transaction they are notified when it commits. */
    readonly ended: (ends: ReadonlyArray<AttemptEnd>, inTransaction: boolean) => Effect.Effect<void, DatabaseError>
  }
>() {
  static readonly layer: Layer.Layer<JobEnds, never, Database | Hints> = Layer.scoped(
    JobEnds,
    Effect.suspend(() => make)
  )
}

const make = Effect.gen(function* () {
  const { schema, sql } = yield* Database
  const statements = named("job", { awaitedEnds: hot(endedJobs(schema)) })
  const clock = yield* Effect.clock
  const scope = yield* Effect.scope
  const changes = yield* JobWaits.makeChanges(topics)

  const answer = (waiters: Waiters, id: JobId, exit: Exit.Exit<StoredJob, JobNotFound | DatabaseError>) => {
    for (const waiter of waiters.get(id) ?? []) waiter.answer(exit)
  }

  const read = (waiters: Waiters) => {
    const ids = [...waiters.keys()]
    return mapErrors(sql.unsafe<Found>(statements.awaitedEnds, [SqlArrays.ofPlain(ids)])).pipe(
      Effect.match({
        onFailure: (error) => {
          for (const id of ids) answer(waiters, id, Exit.fail(error))
        },
        onSuccess: (rows) => {
          const now = clock.unsafeCurrentTimeMillis()
          for (const row of rows) {
            const missing = Exit.fail(new JobNotFound({ id: row.awaited }))
            answer(waiters, row.awaited, row.id === null ? missing : Exit.succeed(toStoredJob(row, now)))
          }
        }
      })
    )
  }

  const { wait } = yield* JobWaits.make<undefined, StoredJob, JobNotFound | DatabaseError>({
    name: "results",
    announcedOn: [topics.awaited],
    changedOn: [topics.changed],
    perQuery: 1_000,
    read
  })

  return {
    wait: (id) => (isId(id) ? wait(id, undefined) : Effect.fail(new JobNotFound({ id }))),
    ended: (ends, inTransaction) => {
      if (changes.isEmpty()) return Effect.void
      const ids = changes.awaited(ends.flatMap(({ end, id }) => (end._tag !== "Suspended" ? [id] : [])))
      if (ids.length === 0) return Effect.void
      if (inTransaction) return changes.publishOnCommit(ids)
      return Effect.asVoid(Effect.forkIn(changes.publish(ids), scope))
    }
  } satisfies typeof JobEnds.Service
})

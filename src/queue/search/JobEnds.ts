import { Context, Effect, Exit, Layer } from "effect"
import { inStoredOrder } from "../../core/CanonicalJson.js"
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
import type { EndedJob } from "./JobSearch.js"
import * as JobWaits from "./JobWaits.js"

/** Topics of hints: jobs whose end a caller awaits, and jobs that ended. */
export const topics = { awaited: "awaited", changed: "ended" }

type WaitError = JobNotFound | DatabaseError

/** Callers need the whole job, or only how it ended. */
type Waiters = JobWaits.Waiters<"job" | "end", EndedJob, WaitError>

type Found = { readonly awaited: JobId } & (StoredJobRow | { readonly id: null })

const endedJobs = (schema: string) => `
  select awaited.id as awaited, j.*
  from unnest(${opaque("$1::uuid[]")}) as awaited(id)
  -- One lookup per job: a plan that is prepared for many would read the whole table.
  left join lateral (select ${storedColumns} from ${schema}.job j where j.id = awaited.id limit 1) j on true
  where j.id is null or j.status in ('done', 'dead')`

/** Another program may have written a row that cannot be read. Only its own callers fail. */
const decoded = (row: StoredJobRow, now: number): Exit.Exit<StoredJob> => {
  try {
    return Exit.succeed(toStoredJob(row, now))
  } catch (error) {
    return Exit.die(error)
  }
}

/** The ends of jobs that callers of any process await. */
export class JobEnds extends Context.Tag("nightshift/queue/JobEnds")<
  JobEnds,
  {
    /** Waits until the job is done or dead. */
    readonly wait: (id: JobId) => Effect.Effect<StoredJob, WaitError>

    /** Like `wait`, without a query if the job is done by this process. */
    readonly waitForEnd: (id: JobId) => Effect.Effect<EndedJob, WaitError>

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

  const answer = (waiters: Waiters, id: JobId, exit: Exit.Exit<StoredJob, WaitError>) => {
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
            answer(waiters, row.awaited, row.id === null ? missing : decoded(row, now))
          }
        }
      })
    )
  }

  const { wait, waiting } = yield* JobWaits.make<"job" | "end", EndedJob, WaitError>({
    name: "results",
    announcedOn: [topics.awaited],
    changedOn: [topics.changed],
    perQuery: 1_000,
    read
  })

  const waitFor = (id: JobId, need: "job" | "end") => (isId(id) ? wait(id, need) : Effect.fail(new JobNotFound({ id })))

  /** Answers callers of this process that need only the result. */
  const answerHere = ({ end, id, kind }: AttemptEnd) => {
    if (end._tag !== "Done" || kind === undefined) return
    const callers = waiting(id).filter(({ request }) => request === "end")
    if (callers.length === 0) return
    // As a read of the column would return it.
    const result = end.result === undefined ? undefined : inStoredOrder(JSON.parse(end.result))
    for (const caller of callers) caller.answer(Exit.succeed({ kind, state: "done", result }))
  }

  return {
    // `read` answers with whole jobs.
    wait: (id) => waitFor(id, "job") as Effect.Effect<StoredJob, WaitError>,
    waitForEnd: (id) => waitFor(id, "end"),
    ended: (ends, inTransaction) => {
      if (changes.isEmpty()) return Effect.void
      const ids = changes.awaited(ends.flatMap(({ end, id }) => (end._tag !== "Suspended" ? [id] : [])))
      if (ids.length === 0) return Effect.void
      if (inTransaction) return changes.publishOnCommit(ids)
      ends.forEach(answerHere)
      return Effect.asVoid(Effect.forkIn(changes.publish(ids), scope))
    }
  } satisfies typeof JobEnds.Service
})

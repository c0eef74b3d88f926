import { Clock, Duration, Effect, Layer } from "effect"
import { type JobId, type Lease, makeGenerator } from "../core/Ids.js"
import { Database } from "../database/Database.js"
import { type DatabaseError, DatabaseUnavailable, mapErrors } from "../database/DatabaseError.js"
import type { Listener } from "../database/Listener.js"
import * as ArrayText from "./ArrayText.js"
import * as ClaimPg from "./ClaimPg.js"
import * as DepthCap from "./DepthCap.js"
import * as EnqueuePg from "./EnqueuePg.js"
import * as FinalizePg from "./FinalizePg.js"
import type { JobDesk } from "./JobDesk.js"
import * as JobDeskPg from "./JobDeskPg.js"
import type { JobSearch } from "./JobSearch.js"
import * as JobSearchPg from "./JobSearchPg.js"
import * as JobSql from "./JobSql.js"
import type { Kinds } from "./Kinds.js"
import * as KindsPg from "./KindsPg.js"
import { KnownQueues } from "./KnownQueues.js"
import { LeaseBook } from "./LeaseBook.js"
import { Notifier } from "./Notifier.js"
import * as PurgePg from "./PurgePg.js"
import { type HeldJob, Queue, type Recovered } from "./Queue.js"
import { Queues } from "./QueueSettings.js"
import * as QueuesPg from "./QueuesPg.js"
import { Transactions } from "./Transactions.js"
import * as Wakeups from "./Wakeups.js"

/** How many rows one maintenance statement takes: enough to be worth it, few enough to be short. */
const maintenanceBatch = 5_000

/** How often running jobs are looked for where no lease tells of them. */
const thoroughEvery = Duration.toMillis("1 hour")

/** At this many crashes a job is put away. */
const poisonAt = 5

/** Statements that may be told to try again by the database are tried again, a few times. */
const retrying = <A, E, R>(effect: Effect.Effect<A, E | DatabaseError, R>) =>
  Effect.retry(effect, {
    times: 3,
    while: (error) => error instanceof DatabaseUnavailable && ["40001", "40P01"].includes(error.sqlState ?? "")
  })

const make = Effect.gen(function* () {
  const database = yield* Database
  const notifier = yield* Notifier
  const ids = yield* makeGenerator
  const { schema, sql } = database
  const statements = JobSql.make(schema)
  const leases = new LeaseBook()
  const claims = ClaimPg.make(database, statements, ids, leases)

  const pass = DepthCap.make(database, yield* KnownQueues)

  const enqueue = yield* EnqueuePg.make(database, statements, ids, notifier.hint, pass, (jobs, inTransaction) => {
    const queues = new Set<string>()
    for (const job of jobs) {
      queues.add(job.queue)
      claims.saw(job.queue, job)
    }
    return notifier.stored(queues, inTransaction)
  })

  /** Jobs were put back, perhaps behind where the next claim would begin. */
  const putBack = (queues: ReadonlySet<string>) =>
    Effect.suspend(() => {
      for (const queue of queues) claims.rescan(queue)
      return notifier.stored(queues, false)
    })

  const finalize = FinalizePg.make(database, statements, leases, putBack)

  const heartbeat: typeof Queue.Service.heartbeat = (held) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const rows = yield* mapErrors(
        sql.unsafe<{ id: JobId; lease: Lease; cancel: boolean }>(statements.heartbeat, [
          ArrayText.ofPlain(held.map(({ id }) => id)),
          ArrayText.ofPlain(held.map(({ lease }) => lease)),
          now
        ])
      )
      const ours = new Map(rows.map(({ cancel, id, lease }) => [`${id} ${lease}`, cancel]))
      const cancelOf = ({ id, lease }: HeldJob) => ours.get(`${id} ${lease}`)
      const lost = held.filter((job) => cancelOf(job) === undefined)
      leases.forget(lost)
      return {
        lost,
        cancelRequested: held.filter((job) => cancelOf(job) === true)
      }
    })

  const nextDue: typeof Queue.Service.nextDue = (queues) =>
    Effect.map(
      mapErrors(sql.unsafe<{ queue: string; run_at: number }>(statements.nextDue, [ArrayText.ofPlain(queues)])),
      (rows) => new Map(rows.map(({ queue, run_at }) => [queue, run_at]))
    )

  const recoverBatch = (statement: string, stuckFor: Duration.Duration) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const quietSince = now - Duration.toMillis(stuckFor)
      const rows = yield* mapErrors(
        sql.unsafe<{ queue: string; fate: string; count: number }>(statement, [
          quietSince,
          now,
          maintenanceBatch,
          poisonAt
        ])
      )
      const count = (fate: string) => rows.filter((row) => row.fate === fate).reduce((sum, row) => sum + row.count, 0)
      const recovered = { rescued: count("rescued"), poisoned: count("poison"), cancelled: count("cancelled") }
      yield* putBack(new Set(rows.map(({ queue }) => queue)))
      return recovered
    }).pipe(retrying)

  const recoverBy = (statement: string, stuckFor: Duration.Duration) =>
    Effect.gen(function* () {
      let sum: Recovered = { rescued: 0, poisoned: 0, cancelled: 0 }
      for (;;) {
        const batch = yield* recoverBatch(statement, stuckFor)
        sum = {
          rescued: sum.rescued + batch.rescued,
          poisoned: sum.poisoned + batch.poisoned,
          cancelled: sum.cancelled + batch.cancelled
        }
        if (batch.rescued + batch.poisoned + batch.cancelled < maintenanceBatch) return sum
      }
    })

  // Through the leases it is cheap and finds what a pod left behind. A row that says it runs under a lease that nobody wrote
  // down comes from outside of this program; it is looked for too, but as that means reading all due jobs, not often.
  let lastThorough = Number.NEGATIVE_INFINITY
  const recoverStuck: typeof Queue.Service.recoverStuck = (stuckFor) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const found = yield* recoverBy(statements.recoverLeased, stuckFor)
      if (now - lastThorough < thoroughEvery) return found
      const strays = yield* recoverBy(statements.recoverStray, stuckFor)
      lastThorough = now
      return {
        rescued: found.rescued + strays.rescued,
        poisoned: found.poisoned + strays.poisoned,
        cancelled: found.cancelled + strays.cancelled
      }
    })

  const purgeBatch = (before: number) =>
    Effect.map(
      mapErrors(sql.unsafe(statements.purgeDone, [before, maintenanceBatch]).raw),
      (result) => (result as { readonly rowCount: number | null }).rowCount ?? 0
    ).pipe(retrying)

  const purgeDone: typeof Queue.Service.purgeDone = (olderThan) =>
    Effect.gen(function* () {
      const before = (yield* Clock.currentTimeMillis) - Duration.toMillis(olderThan)
      let sum = 0
      for (;;) {
        const count = yield* purgeBatch(before)
        sum += count
        if (count < maintenanceBatch) return sum
      }
    })

  const progress: typeof Queue.Service.progress = (job, text) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const result = yield* mapErrors(sql.unsafe(statements.progress, [job.id, job.lease, text, now]).raw)
      return (result as { readonly rowCount: number | null }).rowCount === 1
    })

  return Queue.of({
    enqueue,
    claim: (request) => retrying(claims.claim(request)),
    finalize: (ends) => retrying(finalize(ends)),
    heartbeat: (held) =>
      held.length === 0 ? Effect.succeed({ lost: [], cancelRequested: [] }) : retrying(heartbeat(held)),
    progress,
    nextDue,
    recoverStuck,
    purgeDone,
    purge: PurgePg.make(database, statements, yield* Queues, retrying)
  })
})

/** The queue and everything beside it over PostgreSQL: one set of ports, with wake-ups between processes. */
export const layer: Layer.Layer<
  Queue | Queues | JobDesk | JobSearch | Kinds | Transactions | Wakeups.Wakeups,
  never,
  Database | Listener
> = Layer.merge(Layer.scoped(Queue, make), JobDeskPg.layer).pipe(
  Layer.provideMerge(QueuesPg.layer),
  Layer.provideMerge(Layer.mergeAll(JobSearchPg.layer, KindsPg.layer, Transactions.layer)),
  Layer.provide(Layer.merge(Notifier.layer, KnownQueues.layer)),
  Layer.provideMerge(Wakeups.layer)
)

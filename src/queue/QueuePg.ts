import * as SqlClient from "@effect/sql/SqlClient"
import { Clock, Context, Duration, Effect, Layer, Option, Schema } from "effect"
import { ChangeWatch, perClock, steadyNow } from "../core/ChangeWatch.js"
import { type JobId, type Lease, makeGenerator, type PodId } from "../core/Ids.js"
import { DeadReason, limits } from "../core/StoredJob.js"
import { Database } from "../database/Database.js"
import { type DatabaseError, mapErrors, retryContention } from "../database/DatabaseError.js"
import { Hints } from "../database/Hints.js"
import type { Listener } from "../database/Listener.js"
import { named } from "../database/Statements.js"
import { Tally } from "../telemetry/Tally.js"
import { Tracing } from "../telemetry/tracing/Tracing.js"
import * as JobAdminPg from "./admin/JobAdminPg.js"
import * as OperationsPg from "./admin/OperationsPg.js"
import * as BatchesPg from "./batch/BatchesPg.js"
import * as AttemptsPg from "./claim/AttemptsPg.js"
import { ClaimCursors } from "./claim/ClaimCursor.js"
import * as ClaimPg from "./claim/ClaimPg.js"
import * as CoolingPg from "./claim/CoolingPg.js"
import { HeldLeases } from "./claim/HeldLeases.js"
import * as NextDuePg from "./claim/NextDuePg.js"
import * as DeadSessions from "./DeadSessions.js"
import * as EndpointsPg from "./endpoints/EndpointsPg.js"
import * as DepthCap from "./enqueue/DepthCap.js"
import * as EnqueuePg from "./enqueue/EnqueuePg.js"
import * as OuterTransaction from "./enqueue/OuterTransaction.js"
import * as SendSpan from "./enqueue/SendSpan.js"
import * as ErasurePg from "./erasure/ErasurePg.js"
import * as EventsPg from "./events/EventsPg.js"
import * as FinalizePg from "./FinalizePg.js"
import * as FollowUpsPg from "./FollowUpsPg.js"
import { DirectHandoff } from "./handoff/DirectHandoff.js"
import * as DirectHandoffPg from "./handoff/DirectHandoffPg.js"
import * as JobSql from "./JobSql.js"
import * as KindsPg from "./KindsPg.js"
import * as JobLogsPg from "./logs/JobLogsPg.js"
import { Notifier } from "./Notifier.js"
import * as PurgePg from "./PurgePg.js"
import { type HeldJob, Queue, type Recovered, type Submit, submitterOf } from "./Queue.js"
import type { QueuePorts } from "./QueuePorts.js"
import * as SqlArrays from "./SqlArrays.js"
import { BoundedQuery } from "./search/BoundedQuery.js"
import { JobEnds } from "./search/JobEnds.js"
import * as JobOverviewPg from "./search/JobOverviewPg.js"
import * as JobSearchPg from "./search/JobSearchPg.js"
import { KnownQueues } from "./settings/KnownQueues.js"
import { Queues } from "./settings/QueueSettings.js"
import * as QueuesPg from "./settings/QueuesPg.js"
import * as Routes from "./settings/Routes.js"
import * as RoutesPg from "./settings/RoutesPg.js"
import { Transactions } from "./Transactions.js"
import * as Wakeups from "./Wakeups.js"
import * as JobDiagnosisPg from "./why/JobDiagnosisPg.js"
import * as CountedEnds from "./workflow/CountedEnds.js"
import * as WorkflowsPg from "./workflow/WorkflowsPg.js"

/** Interval between scans for running jobs that have no lease row. */
const thoroughEvery = Duration.toMillis("1 hour")

/** Jobs of a queue and kind that were recovered, and what happened to them. */
interface RecoveredRow {
  readonly queue: string
  readonly kind: string
  readonly fate: string
  readonly count: number
  /** Dead jobs whose end an execution may wait for, or whose follow-up is invalid. */
  readonly linked: ReadonlyArray<JobId> | null
}

type SignOfLife = readonly [Lease, string | null]

const isDeadReason = Schema.is(DeadReason)

/**
 * Retries statements that failed because of contention. The first error aborts a caller's transaction, so only the
 * caller can retry and must see that error.
 */
const retrying = <A, E, R>(effect: Effect.Effect<A, E | DatabaseError, R>) =>
  Effect.withFiberRuntime<A, E | DatabaseError, R>((fiber) =>
    Option.isSome(Context.getOption(fiber.currentContext, SqlClient.TransactionConnection))
      ? effect
      : retryContention(effect)
  )

const make = Effect.gen(function* () {
  const database = yield* Database
  const notifier = yield* Notifier
  const known = yield* KnownQueues
  const wakeups = yield* Wakeups.Wakeups
  const directHandoff = yield* DirectHandoff
  const routes = yield* Routes.Routes
  const jobEnds = yield* JobEnds
  const ids = yield* makeGenerator
  const tally = yield* Tally
  const tracer = yield* Tracing
  const { schema, sql } = database
  const statements = named("job", JobSql.make(schema))
  const counted = CountedEnds.make(database)
  const leases = new HeldLeases()
  const cursors = new ClaimCursors()
  const claim = yield* ClaimPg.make(database, known, ids, leases, cursors)
  notifier.onHint((queue) => cursors.markChanged(queue))

  const onStored: EnqueuePg.OnStored = (jobs, inTransaction) => {
    cursors.stored(jobs)
    const queues = new Set<string>()
    for (const { queue } of jobs) queues.add(queue)
    return notifier.stored(queues, inTransaction)
  }
  const count: EnqueuePg.Count = (jobs, now, each = 1) => {
    let from = 0
    for (let to = 1; to <= jobs.length; to += 1) {
      const first = jobs[from]
      const next = jobs[to]
      if (first === undefined || (first.kind === next?.kind && first.queue === next.queue)) continue
      tally.of(first.queue, first.kind).enqueued((to - from) * each, now)
      from = to
    }
  }
  const { enqueue, submitter } = yield* EnqueuePg.make({
    database,
    statements,
    ids,
    hint: notifier.hint,
    pass: DepthCap.make(database, known),
    onStored,
    count,
    makeHandoff: (again) => DirectHandoffPg.make(database, ids, leases, directHandoff, (ends) => finalize(ends), again)
  })

  // With a tracer, each enqueue creates a span per job.
  const traced = Routes.apply(routes, SendSpan.around(tracer, enqueue))

  /** Jobs were returned to the queue, possibly before the claim cursor's position. */
  const onReturned = (queues: ReadonlySet<string>) =>
    Effect.suspend(() => {
      for (const queue of queues) cursors.rescan(queue)
      return notifier.stored(queues, false)
    })

  const cooling = CoolingPg.make(database, known, wakeups, cursors)
  const finalize = FinalizePg.make(database, statements, leases, tally, {
    onPending: onReturned,
    // The start times of woken executions are not before any cursor's position.
    onWoken: notifier.stored,
    onCooling: cooling.onCooling,
    onEnded: (ends, inTransaction) =>
      Effect.zipRight(cooling.onEnded(ends, inTransaction), jobEnds.ended(ends, inTransaction))
  })

  const heartbeat: typeof Queue.Service.heartbeat = (held) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const rows = yield* mapErrors(
        sql.unsafe<{ id: JobId; lease: Lease; cancel: boolean }>(statements.heartbeat, [
          SqlArrays.ofPlain(held.map(({ id }) => id)),
          SqlArrays.ofPlain(held.map(({ lease }) => lease)),
          now
        ])
      )
      const heldByUs = new Map(rows.map(({ cancel, id, lease }) => [`${id} ${lease}`, cancel]))
      const cancelOf = ({ id, lease }: HeldJob) => heldByUs.get(`${id} ${lease}`)
      const lost = held.filter((job) => cancelOf(job) === undefined)
      leases.forget(lost)
      return {
        lost,
        cancelRequested: held.filter((job) => cancelOf(job) === true)
      }
    })

  const nextDue = NextDuePg.make(database, statements, known, cursors)

  const pendingQueues = Effect.map(mapErrors(sql.unsafe<{ queue: string }>(statements.pendingQueues)), (rows) =>
    rows.map(({ queue }) => queue).sort()
  )

  const recoverBatch = (statement: string, ...[which, ...more]: readonly [unknown, ...ReadonlyArray<unknown>]) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const isUnsound = ({ fate }: RecoveredRow) => fate === "no follow-up"
      const [rows, woken] = yield* database.transaction(
        Effect.gen(function* () {
          const recovered = yield* mapErrors(
            sql.unsafe<RecoveredRow>(statement, [which, now, PurgePg.maintenanceBatch, limits.crashes, ...more])
          )
          const ended = recovered.flatMap((row) => (isUnsound(row) ? [] : (row.linked ?? [])))
          const isNotUndone = ({ fate }: RecoveredRow) => fate === "not_undone"
          yield* counted.nameNotUndone(recovered.filter(isNotUndone).flatMap(({ linked }) => linked ?? []))
          return [recovered, yield* counted.count(ended, now)] as const
        })
      )
      for (const { count, fate, kind, queue } of rows) {
        const counters = tally.of(queue, kind)
        if (fate === "rescued") counters.rescued(count, now)
        else if (fate === "follow-up") counters.enqueued(count, now)
        else if (isDeadReason(fate)) counters.died(count, fate, now)
      }
      const unsound = rows.flatMap((row) => (isUnsound(row) ? (row.linked ?? []) : []))
      if (unsound.length > 0) yield* FollowUpsPg.logUnsound(unsound)
      const count = (fate: string) => rows.filter((row) => row.fate === fate).reduce((sum, row) => sum + row.count, 0)
      const recovered = {
        rescued: count("rescued"),
        poisoned: count("poison") + count("not_undone"),
        cancelled: count("cancelled")
      }
      yield* onReturned(new Set([...rows.map(({ queue }) => queue), ...woken]))
      return recovered
    }).pipe(retrying)

  const recoverAll = (...statement: Parameters<typeof recoverBatch>) =>
    Effect.gen(function* () {
      let sum: Recovered = { rescued: 0, poisoned: 0, cancelled: 0 }
      for (;;) {
        const batch = yield* recoverBatch(...statement)
        sum = {
          rescued: sum.rescued + batch.rescued,
          poisoned: sum.poisoned + batch.poisoned,
          cancelled: sum.cancelled + batch.cancelled
        }
        if (batch.rescued + batch.poisoned + batch.cancelled < PurgePg.maintenanceBatch) return sum
      }
    })

  const recoverQuiet = (quiet: ReadonlyArray<SignOfLife>) =>
    quiet.length === 0
      ? Effect.succeed<Recovered>({ rescued: 0, poisoned: 0, cancelled: 0 })
      : recoverAll(
          statements.recoverQuiet,
          SqlArrays.ofPlain(quiet.map(([lease]) => lease)),
          // A lease without running jobs has no heartbeat to compare.
          SqlArrays.ofTexts(quiet.map(([, beat]) => beat ?? "0"))
        )

  // Checking lease rows is cheap and finds the jobs of dead pods. A running job without a lease row was written by
  // another program. To find such jobs, all due jobs must be read, so this is done rarely.
  const watchOf = perClock(() => ({
    beats: new ChangeWatch<Lease, string | null>(),
    lastThorough: Number.NEGATIVE_INFINITY,
    /** Transactions that held a job of a quiet lease at the last check. */
    blockers: [] as ReadonlyArray<string>
  }))

  const endSessions = DeadSessions.make(database)

  const recoverStuck: typeof Queue.Service.recoverStuck = (stuckFor) =>
    Effect.gen(function* () {
      const watch = watchOf(yield* Effect.clock)
      const sentAt = yield* steadyNow
      if (sentAt - watch.lastThorough >= thoroughEvery) {
        yield* mapErrors(sql.unsafe(statements.adoptStrays, [yield* Clock.currentTimeMillis]))
        watch.lastThorough = sentAt
      }
      const rows = yield* mapErrors(sql.unsafe<{ id: Lease; beat: string | null }>(statements.signsOfLife))
      watch.beats.record(
        rows.map(({ beat, id }) => [id, beat]),
        yield* steadyNow
      )
      const quiet = watch.beats.quietFor(Duration.toMillis(stuckFor), sentAt)
      const recovered = yield* recoverQuiet(quiet)
      const held = quiet.filter(([, beat]) => beat !== null).map(([lease]) => lease)
      watch.blockers = yield* endSessions(held, watch.blockers)
      return recovered
    })

  const progress: typeof Queue.Service.progress = (job, text) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const result = yield* mapErrors(sql.unsafe(statements.progress, [job.id, job.lease, text, now]).raw)
      return (result as { readonly rowCount: number | null }).rowCount === 1
    })

  return Queue.of({
    enqueue: traced,
    submitter:
      tracer === undefined
        ? Effect.map(
            Effect.flatMap(submitterOf(traced), submitter),
            (submit): Submit =>
              (job, answer) => {
                const queueOf = Routes.isRouted(job) ? routes.cached() : undefined
                submit(queueOf === undefined ? job : Routes.routed(job, queueOf), answer)
              }
          )
        : submitterOf(traced),
    enqueueInside: (run, jobs) =>
      Routes.apply(routes, SendSpan.around(tracer, OuterTransaction.enqueue(schema, ids, run)))(jobs),
    claim: (request) => retrying(claim(request)),
    finalize: (ends, whenLocked) => retrying(finalize(ends, whenLocked)),
    heartbeat: (held) =>
      held.length === 0 ? Effect.succeed({ lost: [], cancelRequested: [] }) : retrying(heartbeat(held)),
    attempts: AttemptsPg.make(database),
    progress,
    nextDue,
    pendingQueues,
    recoverStuck,
    recoverAbandoned: (quietFor) => recoverAll(statements.recoverAbandoned, Duration.toMillis(quietFor)),
    recoverOrphaned: (pods) =>
      Effect.gen(function* () {
        const recovered = yield* recoverAll(statements.recoverOrphaned, SqlArrays.ofPlain(pods))
        const left = yield* mapErrors(sql.unsafe<{ pod: PodId }>(statements.orphanedPods, [SqlArrays.ofPlain(pods)]))
        return { ...recovered, left: left.map(({ pod }) => pod) }
      }),
    makeFollowUps: FollowUpsPg.make(database, statements, tally, onReturned),
    purge: PurgePg.make(database, statements, yield* Queues, retrying)
  })
})

/** The queue and its related services over PostgreSQL, with notifications between processes. */
export const layer: Layer.Layer<
  QueuePorts | Routes.Routes | Transactions | Hints | Wakeups.Wakeups | DirectHandoff,
  never,
  Database | Listener
> = WorkflowsPg.layer.pipe(
  Layer.provideMerge(
    Layer.mergeAll(
      Layer.provideMerge(BatchesPg.layer, Layer.scoped(Queue, make)),
      JobAdminPg.layer,
      OperationsPg.layer,
      EventsPg.layer,
      EndpointsPg.layer,
      ErasurePg.layer
    )
  ),
  Layer.provideMerge(QueuesPg.layer),
  Layer.provideMerge(
    Layer.mergeAll(
      JobSearchPg.layer,
      JobOverviewPg.layer,
      JobDiagnosisPg.layer,
      JobLogsPg.layer,
      KindsPg.layer,
      RoutesPg.layer,
      Transactions.layer
    )
  ),
  Layer.provide(JobEnds.layer),
  Layer.provideMerge(Hints.layer),
  Layer.provide(Layer.mergeAll(Notifier.layer, KnownQueues.layer, BoundedQuery.layer)),
  Layer.provideMerge(Layer.merge(Wakeups.layer, DirectHandoff.layer))
)

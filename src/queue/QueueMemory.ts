import { Duration, Effect, Either, FiberRef, Layer, type Tracer } from "effect"
import { ChangeWatch, perClock, steadyMillis } from "../core/ChangeWatch.js"
import type { Lease, PodId } from "../core/Ids.js"
import { inOrder } from "../core/LayersInOrder.js"
import { idleUntil } from "../core/Loop.js"
import { ownSubject } from "../core/OwnSubject.js"
import { PodIds } from "../core/PodIdsMemory.js"
import { Hints } from "../database/Hints.js"
import { Tracing } from "../telemetry/tracing/Tracing.js"
import { type AttemptEnd, withoutSuperseded } from "./AttemptEnd.js"
import * as JobAdminMemory from "./admin/JobAdminMemory.js"
import * as OperationsMemory from "./admin/OperationsMemory.js"
import * as BatchesMemory from "./batch/BatchesMemory.js"
import { claimedOf, ownAttempt } from "./claim/AttemptsMemory.js"
import { claimable, ended, nextDue, took } from "./claim/ClaimMemory.js"
import * as EndpointsMemory from "./endpoints/EndpointsMemory.js"
import { enqueueAll } from "./enqueue/EnqueueMemory.js"
import * as SendSpan from "./enqueue/SendSpan.js"
import * as ErasureMemory from "./erasure/ErasureMemory.js"
import * as EventsMemory from "./events/EventsMemory.js"
import { begin, die, finish, followUp, type JobRow, renewed, rescue, suspend, tryAgain } from "./JobRowMemory.js"
import * as JobsMemory from "./JobsMemory.js"
import * as JobTableMemory from "./JobTableMemory.js"
import { layerMemory } from "./Kinds.js"
import * as JobLogsMemory from "./logs/JobLogsMemory.js"
import { about } from "./NewJob.js"
import { nextPurge, purgeAll } from "./PurgeMemory.js"
import {
  type ClaimedJob,
  type ClaimRequest,
  followUpRetryMillis,
  followUpsPerPass,
  type HeldJob,
  type MadeFollowUps,
  Queue,
  type Recovered,
  submitterOf
} from "./Queue.js"
import type { QueuePorts } from "./QueuePorts.js"
import * as JobOverviewMemory from "./search/JobOverviewMemory.js"
import * as JobSearchMemory from "./search/JobSearchMemory.js"
import { formOf, type QueueRow } from "./settings/QueueRow.js"
import { Queues } from "./settings/QueueSettings.js"
import * as QueuesMemory from "./settings/QueuesMemory.js"
import * as Routes from "./settings/Routes.js"
import type { Wakeups } from "./Wakeups.js"
import * as JobDiagnosisMemory from "./why/JobDiagnosisMemory.js"
import * as WorkflowsMemory from "./workflow/WorkflowsMemory.js"
import { WorkflowTable } from "./workflow/WorkflowTableMemory.js"

type Table = typeof JobTableMemory.JobTable.Service
type QueueTables = typeof QueuesMemory.QueueTable.Service
type WorkflowTables = typeof WorkflowTable.Service
type LogTables = typeof JobLogsMemory.LogTable.Service

/** Those of the jobs that the limit of their key lets run beside the jobs that run or are claimed, one of each key. */
const withinKeys = (
  table: Table,
  settings: QueueRow | undefined,
  claimed: ReadonlyArray<JobRow>,
  jobs: ReadonlyArray<JobRow>
): ReadonlyArray<JobRow> => {
  if (settings?.perKey === undefined) return jobs
  const { concurrency } = settings.perKey
  const busy = [...table.running(), ...claimed]
  const isFree = ({ key, queue }: JobRow) =>
    busy.filter((other) => other.queue === queue && other.key === key).length < concurrency
  const isFirst = ({ id, key }: JobRow) => jobs.find((other) => other.key === key)?.id === id
  return jobs.filter((job) => job.key === undefined || (isFirst(job) && isFree(job)))
}

const claimAll = (
  table: Table,
  queues: QueueTables,
  workflows: WorkflowTables,
  { limit, pod, queue, releases = [] }: ClaimRequest,
  now: number
): ReadonlyArray<ClaimedJob> => {
  const tables = { jobs: table, queues }
  const lease = table.ids.lease(now)
  const due = claimable(tables, queue, limit, now)
  took(tables, queue, due, now)
  const settings = queues.rows.get(queue)
  const isClosed = settings?.paused === true || (settings?.throttledUntil ?? 0) > now
  const left =
    isClosed || releases.length === 0
      ? []
      : table.pending(queue).filter((row) => {
          const { release } = workflows.lifetimes.of(row.id)
          return (
            release !== undefined && releases.includes(release) && row.runAt > now && workflows.lifetimes.isParked(row)
          )
        })
  return due.concat(withinKeys(table, settings, due, left).slice(0, limit - due.length)).map((candidate) => {
    const row = begin(candidate, { lease, pod }, now)
    table.put(row)
    return claimedOf(workflows, row, lease, now)
  })
}

const heldBy = (table: Table, { id, lease }: HeldJob): JobRow | undefined => {
  const row = table.get(id)
  return row?.run?.lease === lease ? row : undefined
}

const afterwards = (workflows: WorkflowTables, row: JobRow, { end }: AttemptEnd, now: number): JobRow => {
  switch (end._tag) {
    case "Done":
      return finish(row, end.result, now)
    case "Again": {
      // Unpinned while another release returned it: due now.
      const isFree = end.parked === true && workflows.lifetimes.of(row.id).release === undefined
      return tryAgain(row, isFree ? { ...end, runAt: now } : end, now)
    }
    case "Dead": {
      if (end.reason === "not_undone") {
        const error = `${end.error ?? row.lastError ?? ""}${workflows.notUndone(row.id)}`
        return die(row, { ...end, error, remember: end.reason }, now)
      }
      const reason = row.dying ?? (row.cancelRequestedAt === undefined ? end.reason : "cancelled")
      return die(row, { ...end, reason, remember: end.remember ?? reason }, now)
    }
    case "Suspended": {
      const { continues } = end
      const isCancelled = row.cancelRequestedAt !== undefined || row.dying !== undefined
      const isRenewed = continues !== undefined && !isCancelled
      if (isRenewed) workflows.renew(row, now)
      const isDue = workflows.suspend(row.dedupe?.key ?? "", end.waits, now)
      return suspend(isRenewed ? renewed(row, continues) : row, end, isDue, now)
    }
  }
}

const releaseAfter = (table: Table, row: JobRow, now: number) =>
  row.status === "dead" ? table.putDead(row, now) : table.put(row)

const finalizeAll = (
  table: Table,
  queues: QueueTables,
  workflows: WorkflowTables,
  logs: LogTables,
  ends: ReadonlyArray<AttemptEnd>,
  now: number,
  /** Whether an earlier try wrote this end at this time. */
  wasWritten: (end: AttemptEnd, at: number) => boolean
) =>
  ends.flatMap((end) => {
    const row = heldBy(table, end)
    if (row === undefined) {
      const before = table.get(end.id)
      if (before === undefined || !wasWritten(end, before.updatedAt) || before.status === "running") return [end.id]
      end.written?.(before.status, now, before.reason)
      return []
    }
    if (end.log !== undefined) logs.write(end.log)
    ended(queues, row, end, now)
    // Jobs that wait for this key may now be claimable.
    if (row.key !== undefined && formOf(queues.rows.get(row.queue), now).keyed) table.wakeAfter(row.queue)
    const after = afterwards(workflows, row, end, now)
    releaseAfter(table, after, now)
    if (end.end._tag === "Again" && end.end.parked === true) {
      workflows.lifetimes.park(after)
      table.wakeAfter(after.queue)
    }
    if (after.status !== "running") end.written?.(after.status, now, after.reason)
    return []
  })

/** Loops that act on running jobs have nothing to do until a job runs. */
const untilRunning = (table: Table) => () => (table.isAnyRunning() ? 0 : Number.POSITIVE_INFINITY)

const signsOfLife = (table: Table): ReadonlyMap<Lease, number> => {
  const oldest = new Map<Lease, number>()
  for (const { run } of table.running()) {
    if (run !== undefined) oldest.set(run.lease, Math.min(run.heartbeatAt, oldest.get(run.lease) ?? run.heartbeatAt))
  }
  return oldest
}

const recoverAll = (
  table: Table,
  workflows: WorkflowTables,
  quiet: ReadonlyMap<Lease, number>,
  now: number
): Recovered => {
  const recovered = { rescued: 0, poisoned: 0, cancelled: 0 }
  for (const row of table.running()) {
    const beat = row.run === undefined ? undefined : quiet.get(row.run.lease)
    if (row.run === undefined || beat === undefined || row.run.heartbeatAt > beat) continue
    const next = rescue(row, workflows.notUndone(row.id), now)
    releaseAfter(table, next, now)
    const counters = table.tally.of(row.queue, row.kind)
    if (next.status === "pending" || next.reason === undefined) counters.rescued(1, now)
    else counters.died(1, next.reason, now)
    if (next.status === "pending") recovered.rescued += 1
    else if (next.reason === "cancelled") recovered.cancelled += 1
    else recovered.poisoned += 1
  }
  return recovered
}

/** In memory the routes need no query. */
const queueOf = (routes: typeof Routes.Routes.Service): Routes.Decide => routes.cached() ?? (() => undefined)

/** The end with the queue of the follow-up that the code of its kind computed. */
const routedEnd = (attempt: AttemptEnd, routes: typeof Routes.Routes.Service): AttemptEnd => {
  const { end } = attempt
  if (end._tag !== "Dead" || end.followUp?.routed !== true) return attempt
  return { ...attempt, end: { ...end, followUp: Routes.routedFollowUp(end.followUp, queueOf(routes)) } }
}

const makeDueFollowUps = (
  table: Table,
  kinds: ReadonlyArray<string>,
  compute: Parameters<(typeof Queue.Service)["makeFollowUps"]>[1],
  routes: typeof Routes.Routes.Service,
  now: number
): MadeFollowUps => {
  const failed: Array<MadeFollowUps["failed"][number]> = []
  let made = 0
  const due = [...table.dueFollowUps].filter(([, { dead, dueAt }]) => kinds.includes(dead.kind) && dueAt <= now)
  for (const [key, { dead }] of due.slice(0, followUpsPerPass)) {
    const computed = compute({ kind: dead.kind, version: dead.version, payload: JSON.parse(dead.payload) })
    if (Either.isLeft(computed)) {
      failed.push({ job: dead.id, reason: computed.left })
      table.dueFollowUps.set(key, { dead, dueAt: now + followUpRetryMillis })
      continue
    }
    table.dueFollowUps.delete(key)
    const onDead = JSON.stringify(Routes.routedFollowUp(computed.right, queueOf(routes)))
    const row = followUp({ ...dead, onDead }, dead.finishedAt ?? now, now)
    if (row === undefined) continue
    table.put(row)
    table.tally.of(row.queue, row.kind).enqueued(1, now)
    made += 1
  }
  return { made, failed }
}

const enqueuing = (
  table: Table,
  queues: QueueTables,
  routes: typeof Routes.Routes.Service,
  tracer: Tracer.Tracer | undefined
): Pick<typeof Queue.Service, "enqueue" | "submitter" | "enqueueInside"> => {
  const store: typeof Queue.Service.enqueue = (jobs) =>
    Effect.flatMap(FiberRef.get(ownSubject), (own) =>
      Effect.flatten(
        table.atomically((now) =>
          enqueueAll(table, (queue) => queues.rows.get(queue)?.depthCap, jobs.map(about(own)), now)
        )
      )
    )
  const enqueue = Routes.apply(routes, SendSpan.around(tracer, store))
  // Without a database the caller has no transaction, so the jobs are stored immediately.
  return { enqueue, submitter: submitterOf(enqueue), enqueueInside: (_, jobs) => enqueue(jobs) }
}

const make = (
  table: Table,
  tables: QueueTables,
  workflows: WorkflowTables,
  logs: LogTables,
  queues: typeof Queues.Service,
  routes: typeof Routes.Routes.Service,
  tracer: Tracer.Tracer | undefined,
  present: ReadonlySet<PodId>,
  firstTries = new WeakMap<ReadonlyArray<AttemptEnd>, number>(),
  watchOf = perClock(() => new ChangeWatch<Lease, number>())
): typeof Queue.Service => ({
  ...enqueuing(table, tables, routes, tracer),
  claim: (request) => table.atomically((now) => claimAll(table, tables, workflows, request, now)),
  finalize: (ends) =>
    table.atomically((now) => {
      // A retry reuses the timestamp of the first try to recognize what that try wrote.
      const firstTry = firstTries.get(ends)
      const { current, superseded } = withoutSuperseded(ends)
      const routed = current.map((end) => routedEnd(end, routes))
      const wasWritten = (end: AttemptEnd, at: number) =>
        at === firstTry || (end.unanswered !== undefined && at === firstTries.get(end.unanswered))
      const movedOn = finalizeAll(table, tables, workflows, logs, routed, firstTry ?? now, wasWritten)
      firstTries.set(ends, firstTry ?? now)
      return superseded.map(({ id }) => id).concat(movedOn)
    }),
  heartbeat: (held) =>
    table
      .atomically((now) => {
        const rows = held.map((job) => ({ job, row: heldBy(table, job) }))
        for (const { row } of rows)
          if (row?.run !== undefined) table.put({ ...row, run: { ...row.run, heartbeatAt: now } })
        return {
          lost: rows.filter(({ row }) => row === undefined).map(({ job }) => job),
          cancelRequested: rows.filter(({ row }) => row?.cancelRequestedAt !== undefined).map(({ job }) => job)
        }
      })
      .pipe(Effect.zipLeft(idleUntil(untilRunning(table)))),
  attempts: (pod, held) =>
    table.atomically(() => held.map((job) => ownAttempt(workflows, pod, table.get(job.id), job))),
  progress: (job, progress) =>
    table.atomically((now) => {
      const row = heldBy(table, job)
      if (row !== undefined) table.put({ ...row, progress, updatedAt: now })
      return row !== undefined
    }),
  nextDue: (names) =>
    table
      .atomically((now) => {
        const starts = names.map((name) => [name, nextDue({ jobs: table, queues: tables }, name, now)] as const)
        return new Map(starts.flatMap(([name, start]) => (start === undefined ? [] : [[name, start]])))
      })
      .pipe(Effect.zipLeft(idleUntil(() => (table.isAnyPending() ? 0 : Number.POSITIVE_INFINITY)))),
  pendingQueues: table.atomically(() =>
    [...new Set([...table.rows()].filter(({ status }) => status === "pending").map(({ queue }) => queue))].sort()
  ),
  recoverStuck: (stuckFor) =>
    Effect.clockWith((clock) => {
      const watch = watchOf(clock)
      return table.atomically((now) => {
        watch.record(signsOfLife(table), steadyMillis(clock))
        return recoverAll(
          table,
          workflows,
          new Map(watch.quietFor(Duration.toMillis(stuckFor), steadyMillis(clock))),
          now
        )
      })
    }).pipe(Effect.zipLeft(idleUntil(untilRunning(table)))),
  recoverAbandoned: (quietFor) =>
    table.atomically((now) => {
      const before = now - Duration.toMillis(quietFor)
      const quiet = new Map([...signsOfLife(table).keys()].map((lease) => [lease, before - 1]))
      return recoverAll(table, workflows, quiet, now)
    }),
  recoverOrphaned: (pods) =>
    table.atomically((now) => {
      const leases = [...table.running()].flatMap(({ run }) =>
        run && pods.includes(run.pod) && !present.has(run.pod) ? [[run.lease, Number.POSITIVE_INFINITY] as const] : []
      )
      return { ...recoverAll(table, workflows, new Map(leases), now), left: [] }
    }),
  makeFollowUps: (kinds, compute) =>
    table
      .atomically((now) => makeDueFollowUps(table, kinds, compute, routes, now))
      .pipe(Effect.zipLeft(idleUntil(() => Math.min(...[...table.dueFollowUps.values()].map(({ dueAt }) => dueAt))))),
  purge: (doneRetention, fence) =>
    Effect.flatMap(Effect.zipRight(fence ?? Effect.void, queues.all), (settings) =>
      table.atomically((now) => {
        workflows.purgeEarly(now - Duration.toMillis(doneRetention))
        return purgeAll(table, settings, doneRetention, now)
      })
    ).pipe(Effect.zipLeft(idleUntil(nextPurge(table, tables, doneRetention))))
})

const queue = Layer.effect(
  Queue,
  Effect.gen(function* () {
    return make(
      yield* JobTableMemory.JobTable,
      yield* QueuesMemory.QueueTable,
      yield* WorkflowTable,
      yield* JobLogsMemory.LogTable,
      yield* Queues,
      yield* Routes.Routes,
      yield* Tracing,
      yield* PodIds
    )
  })
)

type Services = QueuePorts | Routes.Routes | Hints | JobsMemory.JobsMemory | PodIds

/** The queue's services over one table in memory, for deterministic tests. Nothing outlives the process. */
export const layer: Layer.Layer<Services, never, Wakeups> = inOrder(
  layerMemory,
  QueuesMemory.routes,
  Hints.layerLocal,
  JobTableMemory.layer,
  QueuesMemory.table,
  WorkflowTable.layer,
  PodIds.layer,
  JobLogsMemory.LogTable.layer,
  JobLogsMemory.layer,
  QueuesMemory.layer,
  JobsMemory.layer,
  JobDiagnosisMemory.layer,
  JobOverviewMemory.layer,
  JobSearchMemory.layer,
  JobAdminMemory.layer,
  OperationsMemory.layer,
  queue,
  BatchesMemory.layer,
  EventsMemory.layer,
  EndpointsMemory.layer,
  ErasureMemory.layer,
  WorkflowsMemory.layer
)

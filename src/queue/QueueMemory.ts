import { Duration, Effect, Layer } from "effect"
import type { AttemptEnd } from "./AttemptEnd.js"
import { enqueueAll } from "./EnqueueMemory.js"
import type { JobDesk } from "./JobDesk.js"
import * as JobDeskMemory from "./JobDeskMemory.js"
import { QueueFull } from "./JobErrors.js"
import { begin, die, finish, type JobRow, rescue, tryAgain } from "./JobRowMemory.js"
import type { JobSearch } from "./JobSearch.js"
import * as JobSearchMemory from "./JobSearchMemory.js"
import * as JobsMemory from "./JobsMemory.js"
import * as JobTableMemory from "./JobTableMemory.js"
import type { Kinds } from "./Kinds.js"
import * as KindsMemory from "./KindsMemory.js"
import type { NewJob } from "./NewJob.js"
import { type ClaimedJob, type ClaimRequest, type HeldJob, Queue, type Recovered } from "./Queue.js"
import { type QueueSettings, Queues } from "./QueueSettings.js"
import * as QueuesMemory from "./QueuesMemory.js"
import * as QueueTableMemory from "./QueueTableMemory.js"
import { classesOf, covers } from "./Retention.js"
import type { Wakeups } from "./Wakeups.js"

type Table = typeof JobTableMemory.JobTable.Service

/** Due rows, best first. One that has crashed goes alone, so that its neighbours are not blamed for what it does. */
const candidates = (pending: ReadonlyArray<JobRow>, limit: number, now: number): ReadonlyArray<JobRow> => {
  const due: Array<JobRow> = []
  for (const row of pending) {
    if (due.length >= limit) break
    if (row.runAt > now) continue
    if (row.crashCount > 0) return due.length === 0 ? [row] : due
    due.push(row)
  }
  return due
}

const claimAll = (table: Table, { limit, pod, queue }: ClaimRequest, now: number): ReadonlyArray<ClaimedJob> => {
  const lease = table.ids.lease(now)
  return candidates(table.pending(queue), limit, now).map((candidate) => {
    const row = begin(candidate, { lease, pod }, now)
    table.put(row)
    return {
      id: row.id,
      lease,
      queue: row.queue,
      kind: row.kind,
      version: row.version,
      payload: JSON.parse(row.payload),
      key: row.key,
      attempt: row.attempt,
      maxAttempts: row.maxAttempts,
      crashCount: row.crashCount,
      meta: row.meta === undefined ? undefined : JSON.parse(row.meta),
      createdAt: row.createdAt,
      runAt: row.runAt,
      startedAt: now
    }
  })
}

/** The row, if the run that speaks about it is still its run. */
const heldBy = (table: Table, { id, lease }: HeldJob): JobRow | undefined => {
  const row = table.get(id)
  return row?.run?.lease === lease ? row : undefined
}

const afterwards = (row: JobRow, { end }: AttemptEnd, now: number): JobRow => {
  switch (end._tag) {
    case "Done":
      return finish(row, end.result, now)
    case "Again":
      return tryAgain(row, end, now)
    case "Dead":
      return die(row, { ...end, remember: end.reason }, now)
  }
}

const settle = (table: Table, row: JobRow, now: number) =>
  row.status === "dead" ? table.bury(row, now) : table.put(row)

const finalizeAll = (table: Table, ends: ReadonlyArray<AttemptEnd>, now: number) =>
  ends.flatMap((end) => {
    const row = heldBy(table, end)
    if (row === undefined) return [end.id]
    settle(table, afterwards(row, end, now), now)
    return []
  })

const recoverAll = (table: Table, stuckFor: Duration.Duration, now: number): Recovered => {
  const recovered = { rescued: 0, poisoned: 0, cancelled: 0 }
  const quietSince = now - Duration.toMillis(stuckFor)
  for (const row of table.running()) {
    if (row.run === undefined || row.run.heartbeatAt >= quietSince) continue
    const next = rescue(row, now)
    settle(table, next, now)
    if (next.status === "pending") recovered.rescued += 1
    else if (next.deadReason === "poison") recovered.poisoned += 1
    else recovered.cancelled += 1
  }
  return recovered
}

const purgeWhere = (table: Table, finishedBefore: number, fits: (row: JobRow) => boolean): number => {
  const old = [...table.rows()].filter(
    (row) => row.finishedAt !== undefined && row.finishedAt < finishedBefore && fits(row)
  )
  for (const row of old) table.remove(row)
  return old.length
}

const purgeAll = (table: Table, queues: ReadonlyArray<QueueSettings>, usual: Duration.Duration, now: number) => {
  const purged = { done: 0, dead: 0 }
  for (const group of classesOf(queues, usual)) {
    purged[group.status] += purgeWhere(table, now - Duration.toMillis(group.keepFor), (row) => covers(group, row))
  }
  return purged
}

/** The first queue that would hold more waiting jobs than it may. */
const fullQueue = (table: Table, queues: typeof Queues.Service, jobs: ReadonlyArray<NewJob>): QueueFull | undefined => {
  for (const queue of new Set(jobs.map((job) => job.queue))) {
    const cap = queues.known(queue)?.depthCap
    const coming = jobs.filter((job) => job.queue === queue).length
    if (cap !== undefined && table.pending(queue).length + coming > cap) return new QueueFull({ queue, cap })
  }
  return undefined
}

const make = (table: Table, queues: typeof Queues.Service): typeof Queue.Service => ({
  enqueue: (jobs) =>
    Effect.suspend((): ReturnType<typeof Queue.Service.enqueue> => {
      const full = fullQueue(table, queues, jobs)
      return full ?? Effect.flatten(table.step((now) => enqueueAll(table, jobs, now)))
    }),
  claim: (request) => table.step((now) => claimAll(table, request, now)),
  finalize: (ends) => table.step((now) => finalizeAll(table, ends, now)),
  heartbeat: (held) =>
    table.step((now) => {
      const rows = held.map((job) => ({ job, row: heldBy(table, job) }))
      for (const { row } of rows)
        if (row?.run !== undefined) table.put({ ...row, run: { ...row.run, heartbeatAt: now } })
      return {
        lost: rows.filter(({ row }) => row === undefined).map(({ job }) => job),
        cancelRequested: rows.filter(({ row }) => row?.cancelRequestedAt !== undefined).map(({ job }) => job)
      }
    }),
  progress: (job, progress) =>
    table.step((now) => {
      const row = heldBy(table, job)
      if (row !== undefined) table.put({ ...row, progress, updatedAt: now })
      return row !== undefined
    }),
  nextDue: (queues) =>
    table.step(() => {
      const earliest = (queue: string) =>
        table.pending(queue).reduce((least, { runAt }) => Math.min(least, runAt), Number.POSITIVE_INFINITY)
      const starts = queues.map((queue) => [queue, earliest(queue)] as const)
      return new Map(starts.filter(([, start]) => Number.isFinite(start)))
    }),
  recoverStuck: (stuckFor) => table.step((now) => recoverAll(table, stuckFor, now)),
  purgeDone: (olderThan) =>
    table.step((now) => purgeWhere(table, now - Duration.toMillis(olderThan), ({ status }) => status === "done")),
  purge: (usual) => Effect.flatMap(queues.all, (settings) => table.step((now) => purgeAll(table, settings, usual, now)))
})

/** The queue's ports over one table in memory, for deterministic tests: nothing in it outlives the process. */
export const layer: Layer.Layer<Queue | Queues | JobDesk | JobSearch | Kinds | JobsMemory.JobsMemory, never, Wakeups> =
  Layer.mergeAll(
    Layer.effect(
      Queue,
      Effect.gen(function* () {
        return make(yield* JobTableMemory.JobTable, yield* Queues)
      })
    ),
    JobDeskMemory.layer,
    JobSearchMemory.layer,
    JobsMemory.layer
  ).pipe(
    Layer.provideMerge(QueuesMemory.layer),
    Layer.provide(Layer.merge(JobTableMemory.layer, QueueTableMemory.layer)),
    Layer.merge(KindsMemory.layer)
  )

import { Duration, Effect, Layer } from "effect"
import type { AttemptEnd } from "./AttemptEnd.js"
import { claimable, nextDue, took } from "./ClaimMemory.js"
import { ended } from "./CoolingMemory.js"
import { enqueueAll } from "./EnqueueMemory.js"
import type { JobDesk } from "./JobDesk.js"
import * as JobDeskMemory from "./JobDeskMemory.js"
import { begin, die, finish, type JobRow, rescue, tryAgain } from "./JobRowMemory.js"
import type { JobSearch } from "./JobSearch.js"
import * as JobSearchMemory from "./JobSearchMemory.js"
import * as JobsMemory from "./JobsMemory.js"
import * as JobTableMemory from "./JobTableMemory.js"
import type { Kinds } from "./Kinds.js"
import * as KindsMemory from "./KindsMemory.js"
import { type ClaimedJob, type ClaimRequest, type HeldJob, Queue, type Recovered } from "./Queue.js"
import { formOf } from "./QueueRow.js"
import type { Queues as QueuesPort } from "./QueueSettings.js"
import * as QueuesMemory from "./QueuesMemory.js"
import * as QueueTableMemory from "./QueueTableMemory.js"
import type { Wakeups } from "./Wakeups.js"

type Table = typeof JobTableMemory.JobTable.Service
type Queues = typeof QueueTableMemory.QueueTable.Service

const claimAll = (
  table: Table,
  queues: Queues,
  { limit, pod, queue }: ClaimRequest,
  now: number
): ReadonlyArray<ClaimedJob> => {
  const tables = { jobs: table, queues }
  const lease = table.ids.lease(now)
  const candidates = claimable(tables, queue, limit, now)
  took(tables, queue, candidates, now)
  return candidates.map((candidate) => {
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

const finalizeAll = (table: Table, queues: Queues, ends: ReadonlyArray<AttemptEnd>, now: number) =>
  ends.flatMap((end) => {
    const row = heldBy(table, end)
    if (row === undefined) return [end.id]
    ended(queues, row, end, now)
    // Whoever waits for the key may go on.
    if (row.key !== undefined && formOf(queues.rows.get(row.queue), now).keyed) table.stir(row.queue)
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

const purge = (table: Table, finishedBefore: number): number => {
  const old = [...table.rows()].filter(
    ({ finishedAt, status }) => status === "done" && finishedAt !== undefined && finishedAt < finishedBefore
  )
  for (const row of old) table.remove(row)
  return old.length
}

const make = (table: Table, queues: Queues): typeof Queue.Service => ({
  enqueue: (jobs) => Effect.flatten(table.step((now) => enqueueAll(table, jobs, now))),
  claim: (request) => table.step((now) => claimAll(table, queues, request, now)),
  finalize: (ends) => table.step((now) => finalizeAll(table, queues, ends, now)),
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
  nextDue: (names) =>
    table.step((now) => {
      const starts = names.map((name) => [name, nextDue({ jobs: table, queues }, name, now)] as const)
      return new Map(starts.flatMap(([name, start]) => (start === undefined ? [] : [[name, start]])))
    }),
  recoverStuck: (stuckFor) => table.step((now) => recoverAll(table, stuckFor, now)),
  purgeDone: (olderThan) => table.step((now) => purge(table, now - Duration.toMillis(olderThan)))
})

/** The queue's ports over one table in memory, for deterministic tests: nothing in it outlives the process. */
export const layer: Layer.Layer<
  Queue | QueuesPort | JobDesk | JobSearch | Kinds | JobsMemory.JobsMemory,
  never,
  Wakeups
> = Layer.mergeAll(
  Layer.effect(
    Queue,
    Effect.gen(function* () {
      return make(yield* JobTableMemory.JobTable, yield* QueueTableMemory.QueueTable)
    })
  ),
  QueuesMemory.layer,
  JobDeskMemory.layer,
  JobSearchMemory.layer,
  JobsMemory.layer
).pipe(Layer.provide(Layer.merge(JobTableMemory.layer, QueueTableMemory.layer)), Layer.merge(KindsMemory.layer))

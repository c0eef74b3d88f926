import { Clock, Context, Effect, Layer } from "effect"
import { type IdGenerator, type JobId, makeGenerator } from "../core/Ids.js"
import * as Rollback from "../core/Rollback.js"
import { Tally } from "../telemetry/Tally.js"
import { followUp, isComputed, type JobRow, uniform } from "./JobRowMemory.js"
import { Wakeups } from "./Wakeups.js"

// The job table of the memory layers. A change is synchronous: no other change runs between its reads and its writes.

/** Rows, with the indexes that keep simulations of many jobs fast. */
export class JobTable extends Context.Tag("nightshift/queue/JobTableMemory")<
  JobTable,
  {
    /** Runs a change atomically, then notifies change listeners and wakes queues with new work. */
    readonly atomically: <A>(act: (now: number) => A) => Effect.Effect<A>
    readonly ids: IdGenerator
    readonly tally: typeof Tally.Service
    readonly get: (id: JobId) => JobRow | undefined
    readonly put: (row: JobRow) => void
    readonly putDead: (row: JobRow, now: number) => void
    /** Follow-ups that the code of a kind must compute, with the instant at which they are due. */
    readonly dueFollowUps: Map<string, { readonly dead: JobRow; readonly dueAt: number }>
    readonly remove: (row: JobRow) => void
    /** Wakes the queue after this change even if no job was added. */
    readonly wakeAfter: (queue: string) => void
    readonly rows: () => IterableIterator<JobRow>
    readonly running: () => Array<JobRow>
    readonly isAnyRunning: () => boolean
    readonly isAnyPending: () => boolean
    /** Pending rows of a queue, in claim order. */
    readonly pending: (queue: string) => ReadonlyArray<JobRow>
    readonly holderOf: (dedupeKey: string) => JobRow | undefined
    readonly changes: () => number
    /** Calls the listener after every change of a row. Returns a function that unsubscribes. */
    readonly onChange: (listener: () => void) => () => void
    readonly onRow: (listener: RowListener) => void
    /** Registers how to take back what this change wrote to another table. */
    readonly onRollback: (revert: () => void) => void
  }
>() {}

/** `before` is undefined for a new row, `after` for a deleted one. */
export type RowListener = (before: JobRow | undefined, after: JobRow | undefined, now: number) => void

const claimOrder = (left: JobRow, right: JobRow): number => {
  if (left.priority !== right.priority) return left.priority - right.priority
  if (left.runAt !== right.runAt) return left.runAt - right.runAt
  if (left.id === right.id) return 0
  return left.id < right.id ? -1 : 1
}

/** Binary search for the row's index, or its insertion index. */
const insertionIndex = (row: JobRow, sorted: ReadonlyArray<JobRow>): number => {
  let from = 0
  let to = sorted.length
  while (from < to) {
    const middle = (from + to) >>> 1
    const other = sorted[middle]
    if (other !== undefined && claimOrder(other, row) < 0) from = middle + 1
    else to = middle
  }
  return from
}

const heldKey = ({ dedupe, status }: JobRow): string | undefined =>
  dedupe !== undefined && (dedupe.scope === "retained" || status === "pending" || status === "running")
    ? dedupe.key
    : undefined

const makeRows = () => {
  const rows = new Map<JobId, JobRow>()
  const running = new Set<JobId>()
  const pending = new Map<string, Array<JobRow>>()
  let pendingCount = 0
  const holders = new Map<string, JobId>()

  const pendingOf = (queue: string) => {
    const known = pending.get(queue)
    if (known !== undefined) return known
    const fresh: Array<JobRow> = []
    pending.set(queue, fresh)
    return fresh
  }

  const forget = (row: JobRow) => {
    rows.delete(row.id)
    running.delete(row.id)
    const key = heldKey(row)
    if (key !== undefined) holders.delete(key)
    if (row.status !== "pending") return
    pendingOf(row.queue).splice(insertionIndex(row, pendingOf(row.queue)), 1)
    pendingCount -= 1
  }

  const put = (row: JobRow) => {
    const before = rows.get(row.id)
    if (before !== undefined) forget(before)
    rows.set(row.id, row)
    if (row.status === "running") running.add(row.id)
    const key = heldKey(row)
    if (key !== undefined) holders.set(key, row.id)
    if (row.status !== "pending") return
    pendingOf(row.queue).splice(insertionIndex(row, pendingOf(row.queue)), 0, row)
    pendingCount += 1
  }

  const get = (id: JobId | undefined) => (id === undefined ? undefined : rows.get(id))
  return {
    get,
    put,
    forget,
    rows: () => rows.values(),
    running: () => [...running].flatMap((id) => get(id) ?? []),
    isAnyRunning: () => running.size > 0,
    isAnyPending: () => pendingCount > 0,
    pending: (queue: string): ReadonlyArray<JobRow> => pending.get(queue) ?? [],
    holderOf: (dedupeKey: string) => get(holders.get(dedupeKey))
  }
}

export const layer: Layer.Layer<JobTable, never, Wakeups> = Layer.effect(
  JobTable,
  Effect.gen(function* () {
    const { unsafeWake } = yield* Wakeups
    const ids = yield* makeGenerator
    const tally = yield* Tally
    const { forget, put: store, ...reads } = makeRows()
    const listeners = new Set<() => void>()
    const rowListeners: Array<RowListener> = []
    /** How to take back what the current change has written. */
    let written: Array<() => void> = []
    const woken = new Set<string>()
    const dueFollowUps = new Map<string, { readonly dead: JobRow; readonly dueAt: number }>()
    let changes = 0
    let changeAt = 0
    let announced = 0

    const wrote = (before: JobRow | undefined, after: JobRow | undefined) => {
      changes += 1
      written.push(() => revert(before, after))
      for (const listener of rowListeners) listener(before, after, changeAt)
    }

    const put = (row: JobRow) => write(uniform(row))

    const write = (row: JobRow) => {
      const before = reads.get(row.id)
      store(row)
      if (row.status === "pending") woken.add(row.queue)
      wrote(before, row)
    }

    const remove = (row: JobRow) => {
      forget(row)
      wrote(row, undefined)
    }

    /** A row that another change has written since is not restored: in PostgreSQL that change would have waited. */
    const revert = (before: JobRow | undefined, after: JobRow | undefined) => {
      if (after !== undefined && reads.get(after.id) !== after) return
      if (before !== undefined) write(before)
      else if (after !== undefined) remove(after)
    }

    const announce = () => {
      if (announced !== changes) for (const listener of [...listeners]) listener()
      announced = changes
      if (woken.size === 0) return
      const queues = [...woken]
      woken.clear()
      for (const queue of queues) unsafeWake(queue)
    }

    /** One operation of the fiber, because a test or a simulation runs millions of them. */
    const atomically = <A>(act: (now: number) => A): Effect.Effect<A> =>
      Effect.withFiberRuntime((fiber) => {
        written = []
        changeAt = Context.get(fiber.currentDefaultServices, Clock.Clock).unsafeCurrentTimeMillis()
        const answer = act(changeAt)
        const reverts = written
        const rollback = () => {
          for (const each of reverts.toReversed()) each()
        }
        if (reverts.length > 0) Rollback.rememberIn(fiber, rollback)
        announce()
        return Effect.succeed(answer)
      })

    return {
      ...reads,
      ids,
      tally,
      dueFollowUps,
      put,
      atomically,
      putDead: (row, now) => {
        put(row)
        if (isComputed(row) && row.reason !== "cancelled") {
          const key = `${row.id}:${row.deathCount}`
          dueFollowUps.set(key, { dead: row, dueAt: now })
          written.push(() => void dueFollowUps.delete(key))
        }
        const next = followUp(row, now)
        if (next === undefined || reads.get(next.id) !== undefined) return
        put(next)
        tally.of(next.queue, next.kind).enqueued(1, now)
      },
      wakeAfter: (queue) => void woken.add(queue),
      remove,
      changes: () => changes,
      onChange: (listener) => {
        listeners.add(listener)
        return () => void listeners.delete(listener)
      },
      onRow: (listener) => void rowListeners.push(listener),
      onRollback: (revert) => {
        changes += 1
        written.push(revert)
      }
    }
  })
)

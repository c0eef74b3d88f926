import { Context, Effect, Layer } from "effect"
import { type IdGenerator, type JobId, makeGenerator } from "../core/Ids.js"
import * as Undo from "../core/Undo.js"
import { Tally } from "../telemetry/Tally.js"
import { followUp, type JobRow } from "./JobRowMemory.js"
import { Wakeups } from "./Wakeups.js"

// The one table under the memory layers. A step is synchronous, so nothing comes between its reads and its writes.

/** Rows, with the indexes of the real table that make a simulation of many jobs bearable. */
export class JobTable extends Context.Tag("nightshift/queue/JobTableMemory")<
  JobTable,
  {
    /** One act, whole; those who wait for changes and the queues with new work are told when it is over. */
    readonly step: <A>(act: (now: number) => A) => Effect.Effect<A>
    readonly ids: IdGenerator
    readonly tally: typeof Tally.Service
    readonly get: (id: JobId) => JobRow | undefined
    readonly put: (row: JobRow) => void
    /** Stores a row that died, and the job that follows its death. */
    readonly bury: (row: JobRow, now: number) => void
    readonly remove: (row: JobRow) => void
    /** The queue may have work for other reasons than a new job. */
    readonly stir: (queue: string) => void
    readonly rows: () => IterableIterator<JobRow>
    readonly running: () => Array<JobRow>
    /** Pending rows of a queue in the order in which they are claimed. */
    readonly pending: (queue: string) => ReadonlyArray<JobRow>
    readonly holderOf: (dedupeKey: string) => JobRow | undefined
    readonly changes: () => number
    /** Calls back after every step that changed something; the answer ends that. */
    readonly onChange: (listener: () => void) => () => void
    /** Calls back with every row that is written, as it was and as it is. */
    readonly onRow: (listener: RowListener) => void
  }
>() {}

/** Hears of a row as it was, nothing for a new one, and as it is, nothing for one that is gone. */
export type RowListener = (before: JobRow | undefined, after: JobRow | undefined) => void

const claimOrder = (left: JobRow, right: JobRow): number => {
  if (left.priority !== right.priority) return left.priority - right.priority
  if (left.runAt !== right.runAt) return left.runAt - right.runAt
  if (left.id === right.id) return 0
  return left.id < right.id ? -1 : 1
}

/** Where the row stands, or would. */
const placeOf = (row: JobRow, sorted: ReadonlyArray<JobRow>): number => {
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

/** The dedupe key that nobody else can have while this row is as it is. */
const heldKey = ({ dedupe, status }: JobRow): string | undefined =>
  dedupe !== undefined && (dedupe.scope === "retained" || status === "pending" || status === "running")
    ? dedupe.key
    : undefined

const makeRows = () => {
  const rows = new Map<JobId, JobRow>()
  const running = new Set<JobId>()
  const pending = new Map<string, Array<JobRow>>()
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
    if (row.status === "pending") pendingOf(row.queue).splice(placeOf(row, pendingOf(row.queue)), 1)
  }

  const put = (row: JobRow) => {
    const before = rows.get(row.id)
    if (before !== undefined) forget(before)
    rows.set(row.id, row)
    if (row.status === "running") running.add(row.id)
    const key = heldKey(row)
    if (key !== undefined) holders.set(key, row.id)
    if (row.status === "pending") pendingOf(row.queue).splice(placeOf(row, pendingOf(row.queue)), 0, row)
  }

  const get = (id: JobId | undefined) => (id === undefined ? undefined : rows.get(id))
  return {
    get,
    put,
    forget,
    rows: () => rows.values(),
    running: () => [...running].flatMap((id) => get(id) ?? []),
    pending: (queue: string): ReadonlyArray<JobRow> => pending.get(queue) ?? [],
    holderOf: (dedupeKey: string) => get(holders.get(dedupeKey))
  }
}

export const layer: Layer.Layer<JobTable, never, Wakeups> = Layer.effect(
  JobTable,
  Effect.gen(function* () {
    const { wake } = yield* Wakeups
    const ids = yield* makeGenerator
    const tally = yield* Tally
    const { forget, put: store, ...reads } = makeRows()
    const listeners = new Set<() => void>()
    const rowListeners: Array<RowListener> = []
    let written: Array<readonly [before: JobRow | undefined, after: JobRow | undefined]> = []
    const woken = new Set<string>()
    let changes = 0
    let told = 0

    const wrote = (before: JobRow | undefined, after: JobRow | undefined) => {
      changes += 1
      written.push([before, after])
      for (const listener of rowListeners) listener(before, after)
    }

    const put = (row: JobRow) => {
      const before = reads.get(row.id)
      store(row)
      if (row.status === "pending") woken.add(row.queue)
      wrote(before, row)
    }

    const remove = (row: JobRow) => {
      forget(row)
      wrote(row, undefined)
    }

    /** A row that somebody has written since stays: PostgreSQL would have made them wait. */
    const takeBack = (before: JobRow | undefined, after: JobRow | undefined) => {
      if (after !== undefined && reads.get(after.id) !== after) return
      if (before !== undefined) put(before)
      else if (after !== undefined) remove(after)
    }

    /** Does the act, and remembers for the surrounding transaction how it is taken back. */
    const done = <A>(act: (now: number) => A, now: number): Effect.Effect<A> => {
      written = []
      const answer = act(now)
      const rows = written
      if (rows.length === 0) return Effect.succeed(answer)
      const undo = () => {
        for (const [before, after] of rows.toReversed()) takeBack(before, after)
      }
      return Effect.as(Undo.remember(undo), answer)
    }

    const announce = Effect.suspend(() => {
      if (told !== changes) for (const listener of [...listeners]) listener()
      told = changes
      const queues = [...woken]
      woken.clear()
      return Effect.forEach(queues, wake, { discard: true })
    })

    return {
      ...reads,
      ids,
      tally,
      put,
      step: (act) =>
        Effect.clockWith((clock) => Effect.suspend(() => done(act, clock.unsafeCurrentTimeMillis()))).pipe(
          Effect.zipLeft(announce),
          Effect.uninterruptible
        ),
      bury: (row, now) => {
        put(row)
        const next = followUp(row, now)
        if (next === undefined || reads.get(next.id) !== undefined) return
        put(next)
        tally.of(next.queue, next.kind).enqueued(1, now)
      },
      stir: (queue) => void woken.add(queue),
      remove,
      changes: () => changes,
      onChange: (listener) => {
        listeners.add(listener)
        return () => void listeners.delete(listener)
      },
      onRow: (listener) => void rowListeners.push(listener)
    }
  })
)

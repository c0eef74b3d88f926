import { Context, Effect } from "effect"
import { type BucketCount, bucketStart } from "./BucketCount.js"
import { KindTally } from "./KindTally.js"
import * as MetricSpec from "./MetricSpec.js"
import { Metrics } from "./Metrics.js"
import { WorkflowTally } from "./WorkflowTally.js"

const dropped = MetricSpec.counter(
  "buckets_dropped_total",
  "Closed buckets dropped because the database was unavailable for too long."
)

/**
 * Kind names come from users: beyond this many pairs of queue and kind, the rest are counted together. Pairs of a
 * registered kind and a served queue do not count: the programs of the cluster bound their number.
 */
const maxPairs = 2_000
/** Not a valid queue name, so it cannot collide. */
const others = "(other)"
/** Maximum number of closed buckets kept while the database is unavailable. */
const maxWaitingCounts = 10_000

interface Counting {
  /** Returns the counters of a kind in a queue, always the same object. Keep them in a variable on hot paths. */
  readonly of: (queue: string, kind: string) => KindTally

  /** Names of registered kinds and served queues, which always have their own series. */
  readonly prefer: (names: { readonly kinds?: ReadonlyArray<string>; readonly queues?: ReadonlyArray<string> }) => void

  readonly workflows: WorkflowTally

  /** Returns every bucket that changed since the last call, with its running total. */
  readonly take: () => ReadonlyArray<BucketCount>

  /** Returns undelivered counts, to be taken again unless newer counts of the same bucket exist. */
  readonly returnUndelivered: (counts: ReadonlyArray<BucketCount>) => void

  /** Completes when there is something to take. */
  readonly changed: Effect.Effect<void>
}

const keyOf = ({ grain, kind, queue, start }: BucketCount) => `${grain} ${start} ${queue} ${kind}`

const count = (metrics: typeof Metrics.Service): Counting => {
  const queues = new Map<string, Map<string, KindTally>>()
  const waiting = new Map<string, BucketCount>()
  const preferred = { kinds: new Set<string>(), queues: new Set<string>() }
  /** Number of pairs that are not preferred. */
  let pairs = 0
  let newest = Number.NEGATIVE_INFINITY
  let lookedAt = Number.NEGATIVE_INFINITY
  let hasChanged = false
  let onChange: (() => void) | undefined

  const owner = {
    touched: () => {
      if (hasChanged) return
      hasChanged = true
      onChange?.()
    },
    closed: (counted: BucketCount) => {
      waiting.set(keyOf(counted), counted)
      if (waiting.size <= maxWaitingCounts) return
      const [oldest] = waiting.keys()
      if (oldest !== undefined) waiting.delete(oldest)
      metrics.series(dropped, {}).add(1)
    },
    began: (minute: number) => {
      newest = Math.max(newest, minute)
    }
  }

  const isPreferred = (queue: string, kind: string) =>
    queue === others || (preferred.kinds.has(kind) && preferred.queues.has(queue))

  const all = () => [...queues.values()].flatMap((kinds) => [...kinds.values()])

  /** Closes pairs that are not preferred and were idle in this hour. Returns whether there is room for another pair. */
  const makeRoom = (): boolean => {
    const hour = bucketStart(60, newest)
    if (hour === lookedAt) return false
    lookedAt = hour
    for (const tally of all()) {
      if (isPreferred(tally.queue, tally.kind) || !tally.isIdleAt(newest)) continue
      tally.close()
      queues.get(tally.queue)?.delete(tally.kind)
      pairs -= 1
    }
    return pairs < maxPairs
  }

  const add = (queue: string, kind: string): KindTally => {
    const kinds = queues.get(queue) ?? new Map<string, KindTally>()
    const tally = new KindTally(queue, kind, metrics, owner)
    kinds.set(kind, tally)
    queues.set(queue, kinds)
    if (!isPreferred(queue, kind)) pairs += 1
    return tally
  }

  const of = (queue: string, kind: string): KindTally => {
    const known = queues.get(queue)?.get(kind)
    if (known !== undefined) return known
    const hasRoom = pairs < maxPairs || isPreferred(queue, kind) || makeRoom()
    return hasRoom ? add(queue, kind) : of(others, others)
  }

  return {
    of,
    prefer: ({ kinds = [], queues: names = [] }) => {
      const before = preferred.kinds.size + preferred.queues.size
      for (const kind of kinds) preferred.kinds.add(kind)
      for (const name of names) preferred.queues.add(name)
      if (preferred.kinds.size + preferred.queues.size === before) return
      pairs = all().filter(({ kind, queue }) => !isPreferred(queue, kind)).length
    },
    workflows: new WorkflowTally(metrics, (name) => preferred.kinds.has(name)),
    take: () => {
      hasChanged = false
      const taken = [...waiting.values()]
      waiting.clear()
      for (const kinds of queues.values()) {
        for (const tally of kinds.values()) taken.push(...tally.take())
      }
      return taken
    },
    returnUndelivered: (counts) => {
      for (const counted of counts) {
        const isOpen = queues.get(counted.queue)?.get(counted.kind)?.returnUndelivered(counted) === true
        if (!isOpen && !waiting.has(keyOf(counted))) owner.closed(counted)
      }
      owner.touched()
    },
    changed: Effect.async<void>((resume) => {
      onChange = () => {
        onChange = undefined
        resume(Effect.void)
      }
      if (hasChanged) onChange()
      return Effect.sync(() => {
        onChange = undefined
      })
    })
  }
}

const unread: typeof Metrics.Service = {
  series: () => ({ add: () => {}, set: () => {}, observe: () => {} }),
  drop: () => {},
  onRead: () => Effect.void,
  render: Effect.succeed("")
}

const nothing: Counting = (() => {
  const silent = new KindTally(others, others, unread, { touched: () => {}, closed: () => {}, began: () => {} })
  const workflows = new WorkflowTally(unread)
  return {
    of: () => silent,
    prefer: () => {},
    workflows,
    take: () => [],
    returnUndelivered: () => {},
    changed: Effect.never
  }
})()

/** Job counters of this process. Optional: without a layer, nothing is counted. */
export class Tally extends Context.Reference<Tally>()("nightshift/telemetry/Tally", {
  defaultValue: () => nothing
}) {
  /** Empty counters whose totals are exported by Metrics. */
  static readonly make: Effect.Effect<Counting, never, Metrics> = Effect.map(Metrics, count)
}

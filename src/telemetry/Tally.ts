import { Context, Effect } from "effect"
import type { BucketCount } from "./BucketCount.js"
import { KindTally } from "./KindTally.js"
import * as MetricSpec from "./MetricSpec.js"
import { Metrics } from "./Metrics.js"
import { WorkflowTally } from "./WorkflowTally.js"

const dropped = MetricSpec.counter(
  "buckets_dropped_total",
  "Closed buckets dropped because the database was unavailable for too long."
)

/** Kind names come from users: beyond this many pairs of queue and kind, the rest are counted together. */
const mostPairs = 2_000
/** Not a valid queue name, so it cannot collide. */
const others = "(other)"
/** Maximum number of closed buckets kept while the database is unavailable. */
const mostWaiting = 10_000

interface Counting {
  /** Returns the counters of a kind in a queue, always the same object. Keep them in a variable on hot paths. */
  readonly of: (queue: string, kind: string) => KindTally

  readonly workflows: WorkflowTally

  /** Returns every bucket that changed since the last call, with its running total. */
  readonly take: () => ReadonlyArray<BucketCount>

  /** Returns undelivered counts, to be taken again unless newer counts of the same bucket exist. */
  readonly returnToQueue: (counts: ReadonlyArray<BucketCount>) => void

  /** Completes when there is something to take. */
  readonly changed: Effect.Effect<void>
}

const keyOf = ({ grain, kind, queue, start }: BucketCount) => `${grain} ${start} ${queue} ${kind}`

const count = (metrics: typeof Metrics.Service): Counting => {
  const queues = new Map<string, Map<string, KindTally>>()
  const waiting = new Map<string, BucketCount>()
  let pairs = 0
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
      if (waiting.size <= mostWaiting) return
      const [oldest] = waiting.keys()
      if (oldest !== undefined) waiting.delete(oldest)
      metrics.series(dropped, {}).add(1)
    }
  }

  const add = (queue: string, kind: string): KindTally => {
    const kinds = queues.get(queue) ?? new Map<string, KindTally>()
    const tally = new KindTally(queue, kind, metrics, owner)
    kinds.set(kind, tally)
    queues.set(queue, kinds)
    pairs += 1
    return tally
  }

  const of = (queue: string, kind: string): KindTally => {
    const known = queues.get(queue)?.get(kind)
    if (known !== undefined) return known
    return pairs < mostPairs || queue === others ? add(queue, kind) : of(others, others)
  }

  return {
    of,
    workflows: new WorkflowTally(metrics),
    take: () => {
      hasChanged = false
      const taken = [...waiting.values()]
      waiting.clear()
      for (const kinds of queues.values()) {
        for (const tally of kinds.values()) taken.push(...tally.take())
      }
      return taken
    },
    returnToQueue: (counts) => {
      for (const counted of counts) {
        const isOpen = queues.get(counted.queue)?.get(counted.kind)?.returnToQueue(counted) === true
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

const nobody: typeof Metrics.Service = {
  series: () => ({ add: () => {}, set: () => {}, observe: () => {} }),
  onRead: () => Effect.void,
  render: Effect.succeed("")
}

const nothing: Counting = (() => {
  const silent = new KindTally(others, others, nobody, { touched: () => {}, closed: () => {} })
  const workflows = new WorkflowTally(nobody)
  return { of: () => silent, workflows, take: () => [], returnToQueue: () => {}, changed: Effect.never }
})()

/** Job counters of this process. Optional: without a layer, nothing is counted. */
export class Tally extends Context.Reference<Tally>()("nightshift/telemetry/Tally", {
  defaultValue: () => nothing
}) {
  /** Empty counters whose totals are exported by Metrics. */
  static readonly make: Effect.Effect<Counting, never, Metrics> = Effect.map(Metrics, count)
}

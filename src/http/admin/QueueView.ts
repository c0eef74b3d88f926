import { Duration, Schema } from "effect"
import { countKinds, exact } from "../../core/Count.js"
import * as DurationText from "../../core/DurationText.js"
import { State } from "../../core/StoredJob.js"
import type { QueueCounts } from "../../queue/search/JobSearch.js"
import { KeyOrder, type QueueSettings } from "../../queue/settings/QueueSettings.js"
import * as Instant from "../Instant.js"
import * as WireDuration from "../WireDuration.js"

const Count = Schema.Struct({
  value: Schema.Int,
  kind: Schema.Literal(...countKinds).annotations({
    description:
      "`exact`; `estimate`, counted to the end a while ago or derived from the planner's statistics; or `atLeast`, a lower bound."
  })
}).annotations({ identifier: "Count" })

export const Counts = Schema.Struct({
  scheduled: Count,
  retrying: Count,
  pending: Count,
  running: Count,
  done: Count,
  dead: Count,
  cancelled: Count
} satisfies Record<State, unknown>)

export const Throughput = Schema.Struct({
  seconds: Schema.Number.annotations({ description: "Length of the measured period in seconds, about one hour." }),
  completed: Schema.Int,
  dead: Schema.Int
}).annotations({ identifier: "Throughput" })
export type Throughput = typeof Throughput.Type

/** A queue in API responses: its job counts and its settings. */
export const QueueView = Schema.Struct({
  name: Schema.String,
  counts: Counts,
  oldestDueAgeSeconds: Schema.NullOr(Schema.Number),
  oldestDueAt: Schema.NullOr(Schema.String).annotations({
    description: "When the job that has been due longest became due; null if none is due."
  }),
  utilisation: Schema.NullOr(Schema.Number).annotations({
    description:
      "Running jobs divided by workers. 1 means all are busy; it exceeds 1 while workers are being removed. Null without workers."
  }),
  throughput: Schema.NullOr(Throughput).annotations({
    description: "Recently completed and dead jobs; null if not measured."
  }),
  paused: Schema.Boolean,
  maxWorkers: Schema.Int,
  retainDone: Schema.NullOr(WireDuration.text("A duration; null uses QUEUE_DONE_RETENTION.")),
  retainDead: Schema.NullOr(WireDuration.text("A duration; null keeps dead jobs forever.")),
  backoff: Schema.Struct({ enabled: Schema.Boolean, base: WireDuration.text(), max: WireDuration.text() }),
  limits: Schema.Struct({
    rate: Schema.NullOr(Schema.Struct({ jobs: Schema.Int, per: WireDuration.text() })),
    perKey: Schema.NullOr(Schema.Struct({ concurrency: Schema.Int, order: KeyOrder })),
    depthCap: Schema.NullOr(Schema.Int)
  }),
  throttledUntil: Schema.NullOr(Schema.String),
  throttleAttempts: Schema.Int,
  declared: Schema.Boolean.annotations({
    description: "False if the queue has jobs but no settings, because no process has ever declared it."
  })
}).annotations({ identifier: "Queue" })
export type QueueView = typeof QueueView.Type

/** Makes the counts of all states. */
export const countsOf = (of: (state: State) => typeof Count.Type) =>
  Object.fromEntries(State.literals.map((state) => [state, of(state)])) as typeof Counts.Type

const noCounts = countsOf(() => exact(0))

/** Counts of a queue that could not be read in time: lower bounds. */
export const unknownCounts = (queue: string): QueueCounts => ({
  queue,
  counts: countsOf(() => ({ value: 0, kind: "atLeast" })),
  oldestDueAge: undefined,
  oldestDueAt: undefined
})

const textOrNull = (duration: Duration.Duration | undefined) =>
  duration === undefined ? null : DurationText.format(duration)

/** Settings of a queue without a stored row. */
const undeclared = {
  paused: false,
  maxWorkers: 10,
  retainDone: undefined,
  retainDead: undefined,
  backoff: { enabled: false, base: Duration.seconds(60), max: Duration.minutes(30) },
  rate: undefined,
  perKey: undefined,
  depthCap: undefined,
  throttledUntil: undefined,
  throttleAttempts: 0
} satisfies Omit<QueueSettings, "name" | "revision">

/** The settings part of the view. */
const settingsView = ({ backoff, depthCap, perKey, rate, ...settings }: Omit<QueueSettings, "name" | "revision">) => ({
  paused: settings.paused,
  maxWorkers: settings.maxWorkers,
  retainDone: textOrNull(settings.retainDone),
  retainDead: textOrNull(settings.retainDead),
  backoff: {
    enabled: backoff.enabled,
    base: DurationText.format(backoff.base),
    max: DurationText.format(backoff.max)
  },
  limits: {
    rate: rate === undefined ? null : { jobs: rate.jobs, per: DurationText.format(rate.per) },
    perKey: perKey ?? null,
    depthCap: depthCap ?? null
  },
  throttledUntil: Instant.formatOrNull(settings.throttledUntil),
  throttleAttempts: settings.throttleAttempts
})

/** Makes the view of a queue that has jobs, settings or both. */
export const of = (
  name: string,
  counted: QueueCounts | undefined,
  settings: QueueSettings | undefined,
  throughput?: Throughput
): QueueView => {
  const { maxWorkers } = settings ?? undeclared
  return {
    name,
    counts: counted?.counts ?? noCounts,
    oldestDueAgeSeconds: counted?.oldestDueAge === undefined ? null : counted.oldestDueAge / 1000,
    oldestDueAt: Instant.formatOrNull(counted?.oldestDueAt),
    utilisation: maxWorkers === 0 ? null : (counted?.counts.running.value ?? 0) / maxWorkers,
    throughput: throughput ?? null,
    ...settingsView(settings ?? undeclared),
    declared: settings !== undefined
  }
}

/** The settings of a queue as stored in the audit log. */
export const settingsOf = (settings: QueueSettings) => ({ name: settings.name, ...settingsView(settings) })

/** Makes the views of all queues that have jobs or settings, by name. */
export const ofAll = (
  counts: ReadonlyArray<QueueCounts>,
  settings: ReadonlyArray<QueueSettings>,
  throughput?: (queue: string) => Throughput
): ReadonlyArray<QueueView> => {
  const counted = new Map(counts.map((of) => [of.queue, of]))
  const set = new Map(settings.map((of) => [of.name, of]))
  return [...new Set([...counted.keys(), ...set.keys()])]
    .sort()
    .map((name) => of(name, counted.get(name), set.get(name), throughput?.(name)))
}

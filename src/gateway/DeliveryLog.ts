import { Clock, Context, Duration, Effect, Layer } from "effect"
import { type JobId, millisOf } from "../core/Ids.js"
import type { State, StoredJob } from "../core/StoredJob.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import { JobOverview } from "../queue/search/JobOverview.js"
import { type JobFilter, JobSearch } from "../queue/search/JobSearch.js"
import type { Bot, Source } from "./Bots.js"
import { kindOf, queueOf } from "./config/Declarations.js"
import { Deliveries, type Delivery } from "./Deliveries.js"
import { botDedupePrefix, sourceDedupePrefix } from "./WebhookIntake.js"

// The log merges two sources. This process remembers deliveries to itself, including redeliveries and sync replies; the
// job table has the deliveries to every pod.

/** Bounds of the job search. Senders stop retrying before `lookBack`. */
const maxJobs = 50
const lookBack = Duration.hours(72)

/** The search by kind has no index, so it reads at most this many of the newest jobs. */
export const among = 50_000

/** A delivery with its job, if it has one. */
export interface LoggedDelivery extends Omit<Delivery, "job"> {
  readonly job: { readonly id: JobId; readonly state: State | undefined } | undefined
}

export interface Logged {
  /** Newest first. */
  readonly deliveries: ReadonlyArray<LoggedDelivery>
  /** False if the job search timed out, so the log has only this process's deliveries. */
  readonly complete: boolean
}

/** Recent deliveries to all pods. */
export class DeliveryLog extends Context.Tag("nightshift/gateway/DeliveryLog")<
  DeliveryLog,
  {
    readonly ofBot: (bot: Bot) => Effect.Effect<Logged, DatabaseError>
    readonly ofSource: (source: Source) => Effect.Effect<Logged, DatabaseError>
  }
>() {
  static readonly layer: Layer.Layer<DeliveryLog, never, Deliveries | JobSearch | JobOverview> = Layer.suspend(() =>
    Layer.effect(DeliveryLog, make)
  )
}

const ofJob = (job: StoredJob, id: string): LoggedDelivery => ({
  id,
  firstSeenAt: millisOf(job.id),
  lastSeenAt: millisOf(job.id),
  redelivered: 0,
  outcome: "stored",
  job: { id: job.id, state: job.state }
})

type States = ReadonlyMap<JobId, State>

const ofMemory =
  (states: States) =>
  ({ job, ...delivery }: Delivery): LoggedDelivery => ({
    ...delivery,
    job: job === undefined ? undefined : { id: job, state: states.get(job) }
  })

const merge = (
  remembered: ReadonlyArray<Delivery>,
  states: States,
  jobs: ReadonlyArray<StoredJob>,
  prefix: string
): ReadonlyArray<LoggedDelivery> => {
  const byId = new Map(remembered.map((delivery) => [delivery.id, ofMemory(states)(delivery)]))
  for (const job of jobs) {
    const key = job.dedupe?.key
    // A source's kind may also have jobs that did not come from the source.
    if (key === undefined || !key.startsWith(prefix)) continue
    const id = key.slice(prefix.length)
    const stored = ofJob(job, id)
    const known = byId.get(id)
    byId.set(id, known === undefined ? stored : { ...known, firstSeenAt: stored.firstSeenAt, job: stored.job })
  }
  return [...byId.values()].sort((left, right) => right.lastSeenAt - left.lastSeenAt)
}

const make = Effect.gen(function* () {
  const deliveries = yield* Deliveries
  const search = yield* JobSearch
  const overview = yield* JobOverview

  /** Looks up the states of jobs that this process remembers and the search did not return. */
  const statesOf = (remembered: ReadonlyArray<Delivery>, found: ReadonlyArray<StoredJob>) => {
    const known = new Set(found.map(({ id }) => id))
    const others = remembered.flatMap(({ job }) => (job === undefined || known.has(job) ? [] : [job]))
    return Effect.map(
      others.length === 0 ? Effect.succeed([]) : overview.listed(others),
      (listed): States => new Map(listed.map(({ id, state }) => [id, state]))
    )
  }

  const log = (hook: string, prefix: string, filter: JobFilter): Effect.Effect<Logged, DatabaseError> =>
    Effect.gen(function* () {
      const since = (yield* Clock.currentTimeMillis) - Duration.toMillis(lookBack)
      const remembered = deliveries.book(hook).recent
      const { complete, jobs } = yield* search.list({ ...filter, since }, { limit: maxJobs, among }).pipe(
        Effect.map((page) => ({ jobs: page.jobs, complete: true })),
        Effect.catchTag("SearchTooSlow", () => Effect.succeed({ jobs: [], complete: false })),
        Effect.catchTags({ BadCursor: Effect.die, SortRefused: Effect.die })
      )
      return { deliveries: merge(remembered, yield* statesOf(remembered, jobs), jobs, prefix), complete }
    })

  return DeliveryLog.of({
    ofBot: ({ async: isAsync, slug }) =>
      isAsync
        ? log(`telegram/${slug}`, botDedupePrefix(slug), { queue: queueOf(slug), kind: kindOf(slug) })
        : Effect.sync(() => ({
            deliveries: merge(deliveries.book(`telegram/${slug}`).recent, new Map(), [], ""),
            complete: true
          })),
    ofSource: ({ kind, name }) => log(name, sourceDedupePrefix(name), { kind })
  })
})

import { Clock, Duration, Effect } from "effect"
import type { JobId } from "../../core/Ids.js"
import { JobOverview, type ListedJob } from "../../queue/search/JobOverview.js"
import { Queues } from "../../queue/settings/QueueSettings.js"
import type { Mask } from "../access/Masked.js"
import { ClusterOverview, type Warning } from "../admin/ClusterOverview.js"
import type { PodView } from "../admin/PodsRoutes.js"
import * as QueueView from "../admin/QueueView.js"
import { ThroughputCache } from "../admin/ThroughputCache.js"
import * as Instant from "../Instant.js"
import { CountsCache } from "../jobs/CountsCache.js"

// The state shown to all listeners. A poll first asks for changed jobs, which costs little. It reads the rest, which costs
// more the more queues there are, after a change and every few seconds. A failed poll keeps the old state and adds a warning.

/** Maximum number of changed jobs per poll. */
const maxChangedJobs = 100

/** Maximum number of running jobs that are polled by id, because no index finds a job that went back to retrying. */
const maxWatchedJobs = 200

/** Milliseconds of overlap between polls, because a commit becomes visible after its timestamp. */
const overlap = 1_000

/** Milliseconds after which a poll reads everything although no job has changed: queues are paused, pods come and go. */
const quietPoll = Duration.toMillis("2 seconds")

/** How far back the first poll reads, in milliseconds. */
const firstLookback = Duration.toMillis("30 seconds")

export interface Snapshot {
  readonly queues: ReadonlyArray<QueueView.QueueView>
  /** When the jobs were counted. */
  readonly countedAt: string | null
  /** When the throughput was measured. */
  readonly measuredAt: string | null
  readonly pods: ReadonlyArray<PodView>
  /** Recently changed jobs, newest change first. */
  readonly jobs: ReadonlyArray<ListedJob>
  /** Whether more jobs changed than are shown. */
  readonly sampled: boolean
  readonly warnings: ReadonlyArray<Warning>
}

/** Changes since the last poll, by event name. */
export type Change = Readonly<Partial<Record<"queues" | "pods" | "warnings", object> & { readonly jobs: ChangedJobs }>>

const empty: Snapshot = {
  queues: [],
  countedAt: null,
  measuredAt: null,
  pods: [],
  jobs: [],
  sampled: false,
  warnings: []
}

const databaseUnavailable: Warning = {
  code: "database",
  message: "The database is not responding; the data shown may be stale."
}

/** A job as listeners get it. */
export const listedView = ({ reason, error, runAt, updatedAt, ...job }: ListedJob) => ({
  ...job,
  runAt: Instant.format(runAt),
  updatedAt: Instant.format(updatedAt),
  reason: reason ?? null,
  error: error ?? null
})

const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b)

/** Ignores the heartbeat age when comparing pods. */
const withoutHeartbeatAge = (pods: ReadonlyArray<PodView>) => pods.map((pod) => ({ ...pod, heartbeatAgeSeconds: 0 }))

/** Ignores what changes with the time alone: listeners know since when a job is due, and the measured hour moves on. */
const withoutAges = ({ oldestDueAgeSeconds, throughput, ...queue }: QueueView.QueueView) => ({
  ...queue,
  throughput: throughput === null ? null : [throughput.completed, throughput.dead]
})

type ListedView = ReturnType<typeof listedView>

/** A job for listeners who do not see hidden fields. */
export const hiddenView = (view: ListedView, { text }: Mask): ListedView => ({
  ...view,
  error: text(view.error, undefined)
})

/** The data of the event `jobs`. */
interface ChangedJobs {
  readonly jobs: ReadonlyArray<ListedView>
  readonly sampled: boolean
}

/** Most listeners want no jobs: the jobs are formatted when they are sent. */
const jobsOf = (jobs: ReadonlyArray<ListedJob>, sampled: boolean): ChangedJobs => ({
  get jobs() {
    return jobs.map(listedView)
  },
  sampled
})

const changeOf = (before: Snapshot, after: Snapshot, changedJobs: ReadonlyArray<ListedJob>): Change => {
  const known = new Map(before.queues.map((queue) => [queue.name, queue]))
  const names = new Set(after.queues.map(({ name }) => name))
  const isKnown = (queue: QueueView.QueueView) => {
    const old = known.get(queue.name)
    return old !== undefined && same(withoutAges(old), withoutAges(queue))
  }
  const changed = after.queues.filter((queue) => !isKnown(queue))
  const { countedAt, measuredAt } = after
  const gone = before.queues.filter(({ name }) => !names.has(name)).map(({ name }) => name)
  return {
    ...(changed.length + gone.length === 0 ? {} : { queues: { changed, gone, countedAt, measuredAt } }),
    ...(same(withoutHeartbeatAge(before.pods), withoutHeartbeatAge(after.pods)) ? {} : { pods: { pods: after.pods } }),
    ...(changedJobs.length === 0 ? {} : { jobs: jobsOf(changedJobs, after.sampled) }),
    ...(same(before.warnings, after.warnings) ? {} : { warnings: { warnings: after.warnings } })
  }
}

/** Finds jobs that changed since the last poll: those found by index, and those that were running then. */
const makeChangedJobs = (overview: typeof JobOverview.Service) => {
  let since: number | undefined
  let watched: ReadonlyArray<JobId> = []
  let reported = new Map<JobId, number>()
  return Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const { jobs, sampled } = yield* overview.changed((since ?? now - firstLookback) - overlap, maxChangedJobs)
    const seen = new Set(jobs.map(({ id }) => id))
    const others = watched.filter((id) => !seen.has(id))
    const all = others.length === 0 ? jobs : [...jobs, ...(yield* overview.listed(others))]
    const changedJobs = all.filter(({ id, updatedAt }) => reported.get(id) !== updatedAt)
    since = now
    reported = new Map(all.map(({ id, updatedAt }) => [id, updatedAt]))
    const running = all.filter(({ state }) => state === "running").map(({ id }) => id)
    watched = running.slice(0, maxWatchedJobs)
    return {
      changedJobs: changedJobs.slice(0, maxChangedJobs),
      sampled: sampled || changedJobs.length > maxChangedJobs
    }
  })
}

export interface LiveSnapshot {
  readonly current: () => Snapshot
  /** Refreshes the state and returns the changes. Never fails. */
  readonly poll: Effect.Effect<Change>
}

export const make: Effect.Effect<
  LiveSnapshot,
  never,
  CountsCache | ThroughputCache | Queues | JobOverview | ClusterOverview
> = Effect.gen(function* () {
  const counts = yield* CountsCache
  const throughput = yield* ThroughputCache
  const settings = yield* Queues
  const clusterOverview = yield* ClusterOverview
  const readChangedJobs = makeChangedJobs(yield* JobOverview)
  let picture = empty
  /** When everything was read, when jobs changed, and when they were counted. Epoch milliseconds. */
  let readAt = 0
  let changedAt = 0
  let countedAt = 0
  /** Changed jobs of polls that failed afterwards. */
  let unsent: ReadonlyArray<ListedJob> = []

  const replace = (after: Snapshot, changedJobs: ReadonlyArray<ListedJob>): Change => {
    const before = picture
    picture = after
    return changeOf(before, after, changedJobs)
  }

  const poll = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const found = yield* readChangedJobs
    const { sampled } = found
    const changedJobs = [...found.changedJobs, ...unsent].slice(0, maxChangedJobs)
    if (changedJobs.length > 0 || sampled) changedAt = now
    // Cached counts may be older than the change that they have to show.
    else if (countedAt > changedAt && now - readAt < quietPoll) return {}
    unsent = changedJobs
    const { at, queues } = yield* counts.read
    const rows = yield* settings.all
    const lately = yield* throughput.sums
    const { pods, warnings } = yield* clusterOverview.read
    readAt = now
    countedAt = at
    unsent = []
    return replace(
      {
        queues: QueueView.ofAll(queues, rows, lately?.of),
        countedAt: Instant.format(at),
        measuredAt: Instant.formatOrNull(lately?.at),
        pods,
        jobs: [...changedJobs, ...picture.jobs].slice(0, maxChangedJobs),
        sampled,
        warnings
      },
      changedJobs
    )
  })

  return {
    current: () => picture,
    poll: Effect.catchAll(poll, (error) =>
      Effect.map(Effect.logDebug("a poll for live events failed", error), () => {
        readAt = 0
        return replace({ ...picture, warnings: [databaseUnavailable] }, [])
      })
    )
  }
})

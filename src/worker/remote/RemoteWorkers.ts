import { Clock, Context, Duration, Effect, Either, Exit, Layer, Random, type Scope, Utils } from "effect"
import type { Pods } from "../../cluster/Pods.js"
import * as Backoff from "../../core/Backoff.js"
import type { PodId } from "../../core/Ids.js"
import { InvalidJob } from "../../core/InvalidJob.js"
import * as Kind from "../../core/Kind.js"
import type { Outcome } from "../../core/Outcome.js"
import { unopened } from "../../core/Sealed.js"
import { limits, type Status } from "../../core/StoredJob.js"
import { type DatabaseError, isDataError } from "../../database/DatabaseError.js"
import type { Hints } from "../../database/Hints.js"
import type { AttemptEnd, End } from "../../queue/AttemptEnd.js"
import type { Kinds } from "../../queue/Kinds.js"
import * as JobLogs from "../../queue/logs/JobLogs.js"
import { jsonText } from "../../queue/NewJob.js"
import { type ClaimedJob, type HeldJob, Queue } from "../../queue/Queue.js"
import type { Queues } from "../../queue/settings/QueueSettings.js"
import type { Wakeups } from "../../queue/Wakeups.js"
import * as Masking from "../../telemetry/Masking.js"
import type { Metrics } from "../../telemetry/Metrics.js"
import { Tally } from "../../telemetry/Tally.js"
import type { ClusterConfig } from "../ClusterConfig.js"
import { AttemptLines } from "../slots/AttemptLogs.js"
import { FailureLog } from "../slots/FailureLog.js"
import { Finalizer } from "../slots/Finalizer.js"
import * as JobMetrics from "../slots/JobMetrics.js"
import * as Judge from "../slots/Judge.js"
import { at, conclude, type EndWriter, handOver } from "../slots/Slot.js"
import { WorkerConfig } from "../WorkerConfig.js"
import * as LongPolls from "./LongPolls.js"
import { keyOf, podIdOf, RemotePods, type Served, type WorkerAbout } from "./RemotePods.js"

/** A claim of a remote worker. */
export interface RemoteClaim extends Served {
  readonly worker: WorkerAbout
  readonly max: number
  readonly wait: Duration.Duration
  /** The wait ends early when this completes. */
  readonly ends: Effect.Effect<void>
}

/** A job in a heartbeat. */
export interface RemoteBeat extends HeldJob {
  /** The deadline as the worker knows it, in epoch milliseconds. [the start of the attempt and `timeout`] */
  readonly deadline?: number | undefined
  /** Moves the deadline to this long from now. */
  readonly extend?: Duration.Duration | undefined
  readonly progress?: unknown
  /** Why the progress cannot be stored, if its text has shown it. */
  readonly refused?: InvalidJob | undefined
}

/** What a heartbeat found. */
export interface RemotePulse {
  /** The jobs that the worker still holds, with their deadlines, and why their progress was not stored. */
  readonly held: ReadonlyArray<HeldJob & { readonly deadline: number; readonly refused: InvalidJob | undefined }>
  /** The jobs that the worker must stop. */
  readonly stop: ReadonlyArray<HeldJob & { readonly reason: Exclude<Judge.StopReason, "shutdown"> }>
}

/** The end of an attempt, as the worker reports it. */
export interface RemoteEnd extends HeldJob {
  /** `returned` gives the job back without using up its attempt. */
  readonly outcome: Outcome | "returned"
  readonly log: ReadonlyArray<JobLogs.LoggedLine>
}

/** Whether an end was written: the job's status, or undefined if the lease was lost. */
export type Written = Status | undefined

/** How long an attempt may run, unless the worker says otherwise: kinds of other languages have no timeout in code. */
export const defaultTimeout = Kind.defaults.timeout

/** Runs jobs in processes that have no connection to the database. */
export class RemoteWorkers extends Context.Tag("nightshift/worker/RemoteWorkers")<
  RemoteWorkers,
  {
    /** How often a worker should send a heartbeat. */
    readonly heartbeatEvery: Duration.Duration
    /** Claims jobs, or waits for some. All jobs of a response are of one queue. */
    readonly claim: (claim: RemoteClaim) => Effect.Effect<ReadonlyArray<ClaimedJob>, DatabaseError>
    /** Returns jobs to the queue whose response did not arrive, with their attempts. */
    readonly giveBack: (jobs: ReadonlyArray<ClaimedJob>) => Effect.Effect<void>
    /** Renews the heartbeat of jobs. Attempts past their deadline end as failed, or as cancelled if that was requested. */
    readonly heartbeat: (
      worker: WorkerAbout,
      jobs: ReadonlyArray<RemoteBeat>
    ) => Effect.Effect<RemotePulse, DatabaseError>
    /** Ends attempts, with the rules for handlers of processes. An end that was written before is not written again. */
    readonly finish: (
      worker: WorkerAbout,
      ends: ReadonlyArray<RemoteEnd>
    ) => Effect.Effect<ReadonlyArray<Written>, DatabaseError>
    /** Removes a worker that stops from the list of processes. */
    readonly leave: (worker: WorkerAbout) => Effect.Effect<void, DatabaseError>
  }
>() {
  static readonly layer: Layer.Layer<
    RemoteWorkers,
    never,
    Queue | Queues | Kinds | Pods | Hints | Wakeups | Metrics | ClusterConfig | WorkerConfig
  > = Layer.scoped(
    RemoteWorkers,
    Effect.suspend(() => make)
  ).pipe(Layer.provide(RemotePods.layer))
}

const make: Effect.Effect<
  typeof RemoteWorkers.Service,
  never,
  RemotePods | Queue | Wakeups | Metrics | WorkerConfig | Scope.Scope
> = Effect.gen(function* () {
  const pods = yield* RemotePods
  const queue = yield* Queue
  const { heartbeat: heartbeatEvery, jobLogBytes, jobLogLines, jobLogs = true, mask = [], onEnd } = yield* WorkerConfig
  const bounds = {
    lines: jobLogLines ?? JobLogs.defaultBounds.lines,
    bytes: jobLogBytes ?? JobLogs.defaultBounds.bytes
  }
  const finalizer = yield* Finalizer.make
  const tally = yield* Tally
  const clock = yield* Effect.clock
  const jitter = new Utils.PCGRandom(yield* Random.nextInt)
  const maskText = Masking.makeText(mask)

  const writerOf = (name: string): EndWriter => ({
    clock,
    finalizer,
    maskText,
    failures: new FailureLog(),
    metrics: JobMetrics.make(tally, name, undefined, onEnd),
    // A process with the code of the kind computes its follow-up, if it has one.
    registry: new Map(),
    releasesOf: () => ({ own: undefined, others: [] }),
    chance: () => jitter.number(),
    curve: () => {
      const backoff = pods.settings(name)?.backoff
      return backoff?.enabled === true ? Backoff.exponential(backoff) : undefined
    }
  })
  const writers = new Map<string, EndWriter>()
  const writer = (name: string): EndWriter => {
    const known = writers.get(name) ?? writerOf(name)
    writers.set(name, known)
    return known
  }

  /**
   * Completes when the end is written, with the job's new status; undefined if the lease was lost. A request that is
   * interrupted does not wait, and the end is written later.
   */
  const written = (name: string, write: (to: EndWriter) => Effect.Effect<void>): Effect.Effect<Written> =>
    Effect.suspend(() => {
      let became: Written
      const observed = (end: AttemptEnd): AttemptEnd => ({
        ...end,
        written: (status, now, reason) => {
          became = status
          end.written?.(status, now, reason)
        }
      })
      const own = { ...finalizer, offer: () => false, submit: (end: AttemptEnd) => finalizer.submit(observed(end)) }
      return Effect.map(Effect.disconnect(write({ ...writer(name), finalizer: own })), () => became)
    })

  const returned = (jobs: ReadonlyArray<ClaimedJob>, endOf: (job: ClaimedJob) => End) =>
    Effect.forEach(jobs, (job) => handOver(writer(job.queue), job, endOf(job)), { discard: true })

  const giveBack = (jobs: ReadonlyArray<ClaimedJob>) => returned(jobs, Judge.ofUnstarted)

  /** Why a worker cannot run a job. */
  const refusal = ({ execution, kind }: ClaimedJob, kinds: ReadonlySet<string> | undefined): string | undefined => {
    if (execution !== undefined) return `"${kind}" is a workflow, which remote workers cannot run`
    return kinds?.has(kind) === false ? `the remote worker has no handler for the kind "${kind}"` : undefined
  }

  const polls = yield* LongPolls.make({
    giveBack,
    claim: (worker, name, max) =>
      Effect.gen(function* () {
        const limit = yield* pods.room(worker, name, max)
        if (limit === 0) return { jobs: [], isDry: false }
        const claimed = yield* queue.claim({ queue: name, pod: worker.facts.id, limit, remote: true })
        const isRefused = (job: ClaimedJob) =>
          refusal(job, worker.kinds) !== undefined || unopened(job.payload) !== undefined
        const jobs = claimed.filter((job) => !isRefused(job))
        yield* returned(claimed.filter(isRefused), (job) => {
          const sealed = unopened(job.payload)
          const context = at(writer(name))
          return sealed === undefined
            ? Judge.ofUnknown(refusal(job, worker.kinds) ?? "", context)
            : Judge.ofSealed(job, sealed, context)
        })
        const now = clock.unsafeCurrentTimeMillis()
        for (const job of jobs) {
          worker.held.set(keyOf(job), { id: job.id, lease: job.lease, queue: name, crashCount: job.crashCount })
          writer(name).metrics.began(job, now)
        }
        // A job that has crashed a process is claimed alone.
        const isDry = claimed.length < limit && !claimed.some(({ crashCount }) => crashCount > 0)
        return { jobs, isDry }
      })
  })

  const forget = (pod: PodId, jobs: ReadonlyArray<HeldJob>) =>
    Effect.map(pods.heard(pod), (worker) => {
      const freed = new Set<string>()
      for (const job of jobs) {
        const held = worker?.held.get(keyOf(job))
        if (held === undefined) continue
        worker?.held.delete(keyOf(job))
        freed.add(held.queue)
      }
      for (const name of freed) polls.checkRoom(name)
    })

  const linesOf = (job: ClaimedJob, log: ReadonlyArray<JobLogs.LoggedLine>): AttemptLines | undefined => {
    if (!jobLogs || log.length === 0) return undefined
    const lines = new AttemptLines(job, bounds, new Set())
    for (const line of log) lines.add(JobLogs.encode({ ...line, message: maskText(line.message, job.payload) }))
    return lines
  }

  const finishOne = (job: ClaimedJob, { log, outcome }: RemoteEnd) =>
    written(job.queue, (to) => {
      const kind = { backoff: undefined, timeout: defaultTimeout }
      const end =
        outcome === "returned"
          ? Judge.ofStop(job, kind, "shutdown", at(to))
          : Judge.ofExit(job, kind, Exit.succeed(outcome), at(to))
      const run = { job, began: job.startedAt, lines: linesOf(job, log) }
      return end === undefined ? Effect.void : conclude(to, run, end)
    })

  const finish = (about: WorkerAbout, ends: ReadonlyArray<RemoteEnd>) =>
    Effect.gen(function* () {
      const pod = podIdOf(about)
      // The worker may have claimed from another process.
      yield* pods.freshSettings
      // A worker that stops may end an attempt twice in one request. The first end counts.
      const firsts = [...new Map(ends.toReversed().map((end) => [keyOf(end), end])).values()]
      const attempts = yield* queue.attempts(pod, firsts)
      const done = yield* Effect.forEach(
        firsts,
        (end, index): Effect.Effect<Written> => {
          const attempt = attempts[index]
          if (attempt === undefined) return Effect.succeed(undefined)
          return attempt._tag === "Ended" ? Effect.succeed(attempt.status) : finishOne(attempt.job, end)
        },
        { concurrency: "unbounded" }
      )
      // Another request of the worker may have ended an attempt since it was read.
      const unwritten = firsts.filter((_, index) => attempts[index]?._tag === "Running" && done[index] === undefined)
      const since = yield* queue.attempts(pod, unwritten)
      yield* forget(pod, firsts)
      const byKey = new Map(firsts.map((end, index) => [keyOf(end), done[index]]))
      for (const [index, end] of unwritten.entries()) {
        const attempt = since[index]
        if (attempt?._tag === "Ended") byKey.set(keyOf(end), attempt.status)
      }
      return ends.map((end) => byKey.get(keyOf(end)))
    })

  /** Stores the progress of one job, or returns why it cannot be stored. */
  const storeProgress = (job: RemoteBeat) => {
    if (job.refused !== undefined) return Effect.succeed(job.refused)
    const refused = (reason: string) => new InvalidJob({ index: 0, field: "progress", reason })
    const text = jsonText(job.progress, limits.resultBytes)
    if (Either.isLeft(text)) return Effect.succeed(refused(text.left))
    return Effect.as(queue.progress(job, text.right), undefined).pipe(
      Effect.catchIf(isDataError, () => Effect.succeed(refused("has a value that the database cannot store")))
    )
  }

  /** Ends an attempt that is past its deadline. Nothing is written if it has ended meanwhile. */
  const timeOut = (job: ClaimedJob, deadline: number) =>
    written(job.queue, (to) => {
      const kind = { backoff: undefined, timeout: Duration.millis(Math.max(0, deadline - job.startedAt)) }
      const end = Judge.ofStop(job, kind, "timeout", at(to))
      const run = { job, began: job.startedAt, lines: undefined }
      return end === undefined ? Effect.void : conclude(to, run, end)
    })

  const heartbeat = (about: WorkerAbout, jobs: ReadonlyArray<RemoteBeat>) =>
    Effect.gen(function* () {
      const pod = podIdOf(about)
      const worker = yield* pods.heard(pod)
      // The lease alone is not enough: these jobs may be another worker's, or were claimed through another process.
      const unknown = jobs.filter((job) => worker?.held.has(keyOf(job)) !== true)
      const found = yield* queue.attempts(pod, unknown)
      const lost = new Set(unknown.filter((_, index) => found[index]?._tag !== "Running").map(keyOf))
      const own = jobs.flatMap(({ id, lease }) => (lost.has(keyOf({ id, lease })) ? [] : [{ id, lease }]))
      const pulse = yield* queue.heartbeat(own)
      for (const job of pulse.lost) lost.add(keyOf(job))
      const now = yield* Clock.currentTimeMillis
      const cancelled = new Set(pulse.cancelRequested.map(keyOf))
      const alive = jobs.filter((job) => !lost.has(keyOf(job)))
      // After the renewal: progress that fails to be stored must not cost the worker its jobs.
      const refused = new Map<string, InvalidJob>()
      for (const job of alive) {
        const fault = job.progress === undefined ? undefined : yield* storeProgress(job)
        if (fault !== undefined) refused.set(keyOf(job), fault)
      }
      if (worker === undefined && alive.length > 0) yield* pods.adopt(pod)
      const deadlineOf = ({ deadline, extend }: RemoteBeat) =>
        extend === undefined ? deadline : now + Duration.toMillis(extend)
      // Only these need their rows: the others have time left.
      const checked = alive.filter((job) => (deadlineOf(job) ?? 0) <= now)
      if (checked.length > 0) yield* pods.freshSettings
      const attempts = yield* queue.attempts(pod, checked)
      const deadlines = new Map(alive.map((job) => [keyOf(job), deadlineOf(job) ?? 0]))
      const timedOut = new Set<string>()
      for (const [index, job] of checked.entries()) {
        const attempt = attempts[index]
        if (attempt?._tag !== "Running") continue
        const { startedAt } = attempt.job
        const deadline = deadlineOf(job) ?? startedAt + Duration.toMillis(defaultTimeout)
        deadlines.set(keyOf(job), deadline)
        if (deadline > now) continue
        yield* timeOut(attempt.job, deadline)
        timedOut.add(keyOf(job))
      }
      const ended = jobs.filter((job) => lost.has(keyOf(job)) || timedOut.has(keyOf(job)))
      yield* forget(pod, ended)
      return {
        held: alive.flatMap(({ id, lease }) => {
          const key = keyOf({ id, lease })
          return timedOut.has(key)
            ? []
            : [{ id, lease, deadline: deadlines.get(key) ?? now, refused: refused.get(key) }]
        }),
        stop: jobs.flatMap(({ id, lease }): RemotePulse["stop"] => {
          const key = keyOf({ id, lease })
          if (lost.has(key)) return [{ id, lease, reason: "lost" }]
          if (timedOut.has(key)) return [{ id, lease, reason: "timeout" }]
          return cancelled.has(key) ? [{ id, lease, reason: "cancelled" }] : []
        })
      }
    })

  return {
    heartbeatEvery,
    giveBack: (jobs) =>
      Effect.zipRight(
        giveBack(jobs),
        Effect.sync(() => {
          for (const { queue: name } of jobs) polls.checkRoom(name)
        })
      ),
    claim: ({ ends, kinds, max, queues, wait, worker }) =>
      Effect.flatMap(pods.join(worker, { queues, kinds }), (joined) =>
        // In the worker's order: a turn counts in it.
        polls.wait({ worker: joined, queues: joined.facts.queues, max, wait, ends })
      ),
    heartbeat,
    finish,
    leave: (worker) => pods.leave(podIdOf(worker))
  }
})

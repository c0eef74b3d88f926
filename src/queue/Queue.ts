import { Context, type Duration, Effect, type Either, type Exit, Runtime } from "effect"
import { type JobId, type Lease, millisOf, type PodId } from "../core/Ids.js"
import type { InvalidJob } from "../core/InvalidJob.js"
import type { FollowUp, Status } from "../core/StoredJob.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { AttemptEnd } from "./AttemptEnd.js"
import type { JobIdTaken, OuterTransactionFailed, QueueFull } from "./JobErrors.js"
import type { NewJob } from "./NewJob.js"
import type { Journal } from "./workflow/Execution.js"
import type { RunState } from "./workflow/RunState.js"

/** The result of an enqueue: a new job, or the existing job that holds the dedupe key. */
export interface Enqueued {
  /** Id of the new job, or of the job that holds the dedupe key. */
  readonly id: JobId
  /** `enqueued` if the job was stored, `deduplicated` if another job holds its dedupe key. */
  readonly outcome: "enqueued" | "deduplicated"
}

export const enqueued = (id: JobId): Enqueued => ({ id, outcome: "enqueued" })
export const deduplicated = (id: JobId): Enqueued => ({ id, outcome: "deduplicated" })

/** Why an enqueue failed. Nothing was stored, unless a DatabaseUnavailable says that a commit was in flight. */
export type EnqueueError = InvalidJob | JobIdTaken | QueueFull | DatabaseError

/** A statement for the caller's transaction, with one text parameter. Its rows carry the id of their `transaction`. */
export interface OuterStatement {
  readonly text: string
  /** The same statement, which has no effect and returns no rows unless it runs in the transaction with this id. */
  readonly within: (transaction: string) => string
  readonly parameter: string
}

/** Runs a statement in the caller's transaction and returns its rows. Rejects, without effect, if there is no transaction. */
export type RunStatement = (statement: OuterStatement) => Promise<ReadonlyArray<Readonly<Record<string, unknown>>>>

/** Enqueues a job and calls `onResult` once, when the job is durable or rejected. */
export type Submit = (job: NewJob, onResult: (exit: Exit.Exit<Enqueued, EnqueueError>) => void) => void

/** Logs that the callback of a submitted job threw. */
export const logThrown = (error: unknown): Effect.Effect<void> =>
  Effect.logError("the callback for the result of an enqueue threw", error)

/** Makes a submitter that runs `enqueue` in one fiber per job. */
export const submitterOf = (
  enqueue: (jobs: ReadonlyArray<NewJob>) => Effect.Effect<ReadonlyArray<Enqueued>, EnqueueError>
): Effect.Effect<Submit> =>
  Effect.map(Effect.runtime<never>(), (runtime): Submit => {
    const fork = Runtime.runFork(runtime)
    const enqueueOne = (job: NewJob) =>
      Effect.flatMap(enqueue([job]), ([only]) =>
        only === undefined ? Effect.dieMessage("a job has no result") : Effect.succeed(only)
      )
    return (job, onResult) =>
      fork(Effect.suspend(() => enqueueOne(job))).addObserver((exit) => {
        try {
          onResult(exit)
        } catch (error) {
          fork(logThrown(error))
        }
      })
  })

/** Errors of `enqueueInside`. */
export type OuterError = InvalidJob | JobIdTaken | QueueFull | OuterTransactionFailed

export interface ClaimRequest {
  readonly queue: string
  readonly pod: PodId
  readonly limit: number
  /**
   * Releases of this pod to which executions may be pinned. The claim also takes executions that pods with other releases
   * have left to these, if it has room.
   */
  readonly releases?: ReadonlyArray<string> | undefined
  /** Whether the jobs run in a remote worker. Their results may then arrive at another process. [false] */
  readonly remote?: boolean | undefined
}

/** The workflow execution behind a claimed job. */
export interface ClaimedExecution {
  /** The execution's id, which is the job's dedupe key. */
  readonly id: string
  /** Counts wake-ups and ended runs. At 0 the execution has no journal yet. */
  readonly woken: number
  /** The execution was cancelled or has died: this run only undoes the steps that are done. */
  readonly cancelled: boolean
  /** Whether the execution has died. Its children are not cancelled in that case. */
  readonly dying: boolean
  /** Whether a run was cut off, and no later run has caught up: a step may have begun that is not recorded. */
  readonly cut: boolean
  /** The release of the code that last suspended the execution, unless that code no longer follows the journal. */
  readonly release: string | undefined
  /** How often the execution continued with a new journal. */
  readonly continued: number
  /** The release that the execution is pinned to. */
  readonly pinned: string | undefined
  /** Whether a pod ended while it ran this execution. */
  readonly crashed: boolean
  /** The version of the workflow that started the execution. */
  readonly version: number
  /** The job and its lease, which fence every write of the run. */
  readonly run: HeldJob
  readonly state: RunState
  /** The journal as of the claim, if the claim has read it. */
  readonly journal?: Journal
}

export interface ClaimedJob {
  readonly id: JobId
  readonly lease: Lease
  readonly queue: string
  readonly kind: string
  readonly version: number
  readonly payload: unknown
  readonly key: string | undefined
  /** Number of this attempt, starting at 1. */
  readonly attempt: number
  readonly attempts: number
  readonly crashCount: number
  readonly meta: unknown
  /** Set if the job is a workflow execution. */
  readonly execution?: ClaimedExecution | undefined
  /** Whether the end of the job is counted elsewhere: the job is an execution or a child of one. */
  readonly linked?: boolean | undefined
  /** Whether an execution has started the job, or waited for it, when the job was claimed. */
  readonly isChild?: boolean | undefined
  /** Epoch milliseconds. */
  readonly createdAt: number
  readonly runAt: number
  readonly startedAt: number
}

export interface HeldJob {
  readonly id: JobId
  readonly lease: Lease
}

/** An attempt that a pod began: still its own, or ended by the pod. */
export type OwnAttempt =
  | { readonly _tag: "Running"; readonly job: ClaimedJob }
  /** With the status that the job has now. */
  | { readonly _tag: "Ended"; readonly status: Status }

/** How far the time in a lease may be ahead of the start of its attempts, in milliseconds: ids made in one burst run ahead of the clock. */
const leaseAhead = 1_000

/** Whether an attempt that started at this time can be that of the lease. */
export const isStartOf = (lease: Lease, startedAt: number | undefined): boolean =>
  startedAt !== undefined && startedAt <= millisOf(lease) && startedAt > millisOf(lease) - leaseAhead

/** Result of a heartbeat for the jobs a pod believes it holds. */
export interface Pulse {
  /**
   * Attempts that have ended: recovered, deleted or finalized elsewhere. The pod may hold the same job again under a new
   * lease.
   */
  readonly lost: ReadonlyArray<HeldJob>
  readonly cancelRequested: ReadonlyArray<HeldJob>
}

export interface Recovered {
  readonly rescued: number
  /** Reached the crash limit. */
  readonly poisoned: number
  /** Cancellation was requested before their pod disappeared. */
  readonly cancelled: number
}

export interface RecoveredOrphans extends Recovered {
  /** Pods with jobs that another transaction has locked. */
  readonly left: ReadonlyArray<PodId>
}

export interface Purged {
  readonly done: number
  readonly dead: number
}

/** The payload of a dead job, as it is stored. */
export interface DeadPayload {
  readonly kind: string
  readonly version: number
  readonly payload: unknown
}

export interface MadeFollowUps {
  readonly made: number
  /** Jobs whose follow-up the code could not compute. */
  readonly failed: ReadonlyArray<{ readonly job: JobId; readonly reason: string }>
}

export const followUpsPerPass = 100
export const followUpRetryMillis = 3_600_000

/** Durable storage and dispatch of jobs. */
export class Queue extends Context.Tag("nightshift/queue/Queue")<
  Queue,
  {
    /**
     * Stores 1 to 1000 jobs, all or none, and returns one result per job in the same order. A job that already exists,
     * by id with the same content or by dedupe key, is not stored again. Runs in the caller's transaction if there is
     * one. Fails with `QueueFull` if a queue has reached its depth cap.
     */
    readonly enqueue: (jobs: ReadonlyArray<NewJob>) => Effect.Effect<ReadonlyArray<Enqueued>, EnqueueError>

    /**
     * Returns a function that enqueues single jobs without a fiber for each, for endpoints that receive thousands per
     * second. Jobs are stored or rejected independently, and never in the caller's transaction.
     */
    readonly submitter: Effect.Effect<Submit>

    /**
     * Stores 1 to 1000 jobs, all or none, with one statement in a transaction that another library holds. A rejected job
     * does not abort that transaction.
     */
    readonly enqueueInside: (
      run: RunStatement,
      jobs: ReadonlyArray<NewJob>
    ) => Effect.Effect<ReadonlyArray<Enqueued>, OuterError | DatabaseError>

    /**
     * Claims due jobs for a pod under one new lease, ordered by priority, start time and id. A job is never claimed by
     * two pods at once.
     */
    readonly claim: (request: ClaimRequest) => Effect.Effect<ReadonlyArray<ClaimedJob>, DatabaseError>

    /**
     * Finalizes attempts whose lease is still valid. Returns the jobs whose lease was lost; those are not changed.
     * After a failure the same array can be passed again: what the first try wrote is not reported as lost. A job that
     * another transaction has locked is waited for until the statement times out, or fails the call at once.
     */
    readonly finalize: (
      ends: ReadonlyArray<AttemptEnd>,
      whenLocked?: "wait" | "fail"
    ) => Effect.Effect<ReadonlyArray<JobId>, DatabaseError>

    /**
     * Renews the heartbeat of a pod's jobs. Returns the jobs that are lost and those whose cancellation was requested.
     */
    readonly heartbeat: (held: ReadonlyArray<HeldJob>) => Effect.Effect<Pulse, DatabaseError>

    /**
     * Reads attempts that a pod began, in the order given: undefined for those that another pod has, or that ended without
     * the pod. An attempt that the pod returned to the queue unstarted is undefined too.
     */
    readonly attempts: (
      pod: PodId,
      held: ReadonlyArray<HeldJob>
    ) => Effect.Effect<ReadonlyArray<OwnAttempt | undefined>, DatabaseError>

    /** Stores the progress of an attempt. Returns false if the lease was lost. */
    readonly progress: (job: HeldJob, progress: string) => Effect.Effect<boolean, DatabaseError>

    /**
     * Returns when the earliest pending job of each queue is due, in epoch milliseconds. Queues without pending jobs
     * are absent.
     */
    readonly nextDue: (queues: ReadonlyArray<string>) => Effect.Effect<ReadonlyMap<string, number>, DatabaseError>

    /** All queues with pending jobs, whether or not a pod serves them, by name. */
    readonly pendingQueues: Effect.Effect<ReadonlyArray<string>, DatabaseError>

    /**
     * Recovers running jobs like `recoverStuck`, without having watched them: jobs that have had no heartbeat, and
     * whose pod has sent none, for this long by the database's clock. Called when a process starts.
     */
    readonly recoverAbandoned: (quietFor: Duration.Duration) => Effect.Effect<Recovered, DatabaseError>

    /**
     * Recovers the running jobs of these pods like `recoverStuck`, except of pods that have a row. The pods must have ended
     * (see `Pods.removeUnlocked`). Jobs that another transaction has locked are left.
     */
    readonly recoverOrphaned: (pods: ReadonlyArray<PodId>) => Effect.Effect<RecoveredOrphans, DatabaseError>

    /**
     * Makes the follow-ups that the code of these kinds must compute, for jobs that died on pods without that code: at
     * most 100, each once. A follow-up that the code fails to compute is due again an hour later.
     */
    readonly makeFollowUps: (
      kinds: ReadonlyArray<string>,
      compute: (dead: DeadPayload) => Either.Either<FollowUp, string>
    ) => Effect.Effect<MadeFollowUps, DatabaseError>

    /**
     * Recovers running jobs whose heartbeat has not changed for this long: due immediately, attempt restored, crash
     * counted. This process compares heartbeats with those of its earlier calls and measures time with its own
     * monotonic clock, so it recovers nothing before it has watched for that long. A duration of zero recovers
     * everything that runs.
     */
    readonly recoverStuck: (stuckFor: Duration.Duration) => Effect.Effect<Recovered, DatabaseError>

    /**
     * Deletes finished jobs past their queue's retention, in bounded batches. Without a setting, done jobs are kept for
     * `doneRetention` and dead jobs indefinitely. Each batch runs in one transaction with `fence`, if given; when the
     * fence fails, the purge stops.
     */
    readonly purge: <E = never>(
      doneRetention: Duration.Duration,
      fence?: Effect.Effect<void, E>
    ) => Effect.Effect<Purged, E | DatabaseError>
  }
>() {}

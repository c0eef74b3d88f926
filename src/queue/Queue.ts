import { Context, type Data, type Duration, type Effect, type Exit } from "effect"
import type { JobId, Lease, PodId } from "../core/Ids.js"
import type { InvalidJob } from "../core/InvalidJob.js"
import * as Tagged from "../core/Tagged.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { AttemptEnd } from "./AttemptEnd.js"
import type { NewJob } from "./enqueue/NewJob.js"
import type { JobIdTaken, QueueFull } from "./JobErrors.js"

/** What became of a job at the door. */
export type Enqueued = Data.TaggedEnum<{
  Enqueued: { readonly id: JobId }
  /** A job with this dedupe key stands; this is its id. */
  Deduplicated: { readonly id: JobId }
}>
export const Enqueued = Tagged.taggedEnum<Enqueued>({ Enqueued: true, Deduplicated: true })

/** Why a job was not stored. */
export type EnqueueError = InvalidJob | JobIdTaken | QueueFull | DatabaseError

export interface ClaimRequest {
  readonly queue: string
  readonly pod: PodId
  readonly limit: number
}

/** A job in the hands of a pod. */
export interface ClaimedJob {
  readonly id: JobId
  readonly lease: Lease
  readonly queue: string
  readonly kind: string
  readonly version: number
  readonly payload: unknown
  readonly key: string | undefined
  /** The number of this run, from 1. */
  readonly attempt: number
  readonly maxAttempts: number
  readonly crashCount: number
  readonly meta: unknown
  /** Epoch milliseconds. */
  readonly createdAt: number
  readonly runAt: number
  readonly startedAt: number
}

export interface HeldJob {
  readonly id: JobId
  readonly lease: Lease
}

/** What a heartbeat found out about the jobs a pod believes to hold. */
export interface Pulse {
  /** Runs that are over: recovered, deleted or finished elsewhere; the job may be this pod's again under another lease. */
  readonly lost: ReadonlyArray<HeldJob>
  readonly cancelRequested: ReadonlyArray<HeldJob>
}

export interface Recovered {
  readonly rescued: number
  /** Crashed once too often. */
  readonly poisoned: number
  /** Had been asked to cancel before their pod went quiet. */
  readonly cancelled: number
}

/** How many finished jobs were forgotten. */
export interface Purged {
  readonly done: number
  readonly dead: number
}

/** Jobs that must not be lost. */
export class Queue extends Context.Tag("nightshift/queue/Queue")<
  Queue,
  {
    /**
     * Stores one to a thousand jobs, all or none, and answers in their order. A job that stands already, by its id with
     * the same content or by its dedupe key, is left as it is. Part of the caller's transaction where there is one. Refused
     * where a queue has a cap and is full.
     */
    readonly enqueue: (jobs: ReadonlyArray<NewJob>) => Effect.Effect<ReadonlyArray<Enqueued>, EnqueueError>

    /**
     * As many enqueues of one job as there are jobs, together: each is stored or refused on its own, in their order. For
     * doors where many arrive at a time.
     */
    readonly enqueueEach: (
      jobs: ReadonlyArray<NewJob>
    ) => Effect.Effect<ReadonlyArray<Exit.Exit<Enqueued, EnqueueError>>, DatabaseError>

    /** Takes due jobs for a pod under one fresh lease, by priority, then start, then id. Never hands one to two pods. */
    readonly claim: (request: ClaimRequest) => Effect.Effect<ReadonlyArray<ClaimedJob>, DatabaseError>

    /**
     * Ends runs that are still this pod's; returns the jobs that had moved on, about which nothing was changed. When it fails,
     * the same list of ends can be given again: what the first try has written counts as written, and not as moved on.
     */
    readonly finalize: (ends: ReadonlyArray<AttemptEnd>) => Effect.Effect<ReadonlyArray<JobId>, DatabaseError>

    /** Shows that a pod still works on its jobs, and finds out which are lost or asked to cancel. */
    readonly heartbeat: (held: ReadonlyArray<HeldJob>) => Effect.Effect<Pulse, DatabaseError>

    /** Stores how far a run has come; false when the job has moved on. */
    readonly progress: (job: HeldJob, progress: string) => Effect.Effect<boolean, DatabaseError>

    /** When the earliest pending job of each queue is due, in epoch milliseconds; queues without one are absent. */
    readonly nextDue: (queues: ReadonlyArray<string>) => Effect.Effect<ReadonlyMap<string, number>, DatabaseError>

    /** Every queue that has pending jobs, whoever serves it, by name. */
    readonly pendingQueues: Effect.Effect<ReadonlyArray<string>, DatabaseError>

    /**
     * Takes back what runs and was seen to show no new sign of life for this long: due at once, attempt given back, crash
     * counted. This process compares heartbeats with those of its earlier calls and times them by its own steady clock, so it
     * takes nothing back before it has watched for as long; no limit at all takes back everything that runs.
     */
    readonly recoverStuck: (stuckFor: Duration.Duration) => Effect.Effect<Recovered, DatabaseError>

    /** Forgets jobs done longer ago than this, in bounded batches. Dead ones stay. Returns how many went. */
    readonly purgeDone: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>

    /**
     * Forgets finished jobs that are older than their queue keeps them, in bounded batches. Where a queue does not say, done
     * ones are kept for `usual` and dead ones for good. Each batch is one transaction with the fence, where there is one:
     * when that fails, nothing more is forgotten.
     */
    readonly purge: <E = never>(
      usual: Duration.Duration,
      fence?: Effect.Effect<void, E>
    ) => Effect.Effect<Purged, E | DatabaseError>
  }
>() {}

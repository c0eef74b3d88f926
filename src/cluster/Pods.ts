import { Context, type Duration, type Effect, type Option, type Scope } from "effect"
import type { PodId } from "../core/Ids.js"
import type { DatabaseError } from "../database/DatabaseError.js"

/** Ids of the code of workflows, by kind. Pods with the same id for a kind have the same code. */
export type Releases = Readonly<Record<string, string>>

/** The properties of a pod that never change. */
export interface PodFacts {
  readonly id: PodId
  /** The label shown to operators, if one is configured. */
  readonly label: string | undefined
  readonly version: string
  readonly queues: ReadonlyArray<string>
  /** The kinds that the pod has handlers for. */
  readonly kinds: ReadonlyArray<string>
  /** The release of the code of each workflow that the pod has, by kind. */
  readonly releases: Releases
  readonly host: { readonly name: string; readonly pid: number; readonly node: string }
  /** Maximum number of connections that the process opens to PostgreSQL; absent behind a pooler and in memory. */
  readonly connections?: number | undefined
  /** Epoch milliseconds. */
  readonly startedAt: number
}

export interface QueueSlots {
  readonly queue: string
  /** The target, the current number of slots, and the number that run a job. */
  readonly wanted: number
  readonly have: number
  readonly busy: number
}

/** The properties of a pod that change while it runs. */
export interface PodState {
  readonly slots: ReadonlyArray<QueueSlots>
  /** The pod is stopping and claims no new jobs. */
  readonly draining: boolean
  /** How far the database's clock is ahead of the pod's, in seconds; absent if it is not measured. */
  readonly clockOffset?: number | undefined
}

export interface StoredPod extends PodFacts, PodState {
  readonly heartbeatAt: number
  /** The PostgreSQL server that stored the last heartbeat (see `ServerIdentity`). Absent in memory and for older releases. */
  readonly server: string | undefined
}

/** The response to a pod's heartbeat. */
export interface Assignment {
  /** Slots assigned to this pod, by queue; absent for queues that the leader has not assigned yet. */
  readonly shares: ReadonlyMap<string, number>
  /** Number of live pods that serve each of this pod's queues, including this pod. */
  readonly servingPods: ReadonlyMap<string, number>
  /** Releases of the live pods that serve each of this pod's queues, if they differ from this pod's own. */
  readonly otherReleases: ReadonlyMap<string, ReadonlyArray<Releases>>
  /**
   * Other pods that held their lock at their last heartbeat, and that this process has seen without a new one for
   * more than half of their `deadAfter`: they have missed a heartbeat. `removeUnlocked` tests their locks.
   */
  readonly silent: ReadonlyArray<PodId>
}

/** A worker outside of the cluster's processes, which sends its heartbeats to one of them. */
export interface RemotePod extends PodFacts, PodState {
  /** Whether it gets a row if it has none. A worker that has left through another process does not. */
  readonly joins: boolean
}

/** Ids of remote workers are UUIDs of version 8, derived from a name. Those of processes have version 7. */
export const isRemote = (id: PodId): boolean => id.charAt(14) === "8"

/** A pod that was removed because its lock was free. */
export interface UnlockedPod {
  readonly id: PodId
  /** How long this process had seen it without a new heartbeat. */
  readonly silentFor: Duration.Duration
}

/**
 * The time between two tests of a pod's lock, as a share of its `deadAfter`, which is two heartbeats: nearly one, because timers
 * may fire a little early.
 */
export const betweenTests = 0.45

/** Topic of hints for pods that start, drain or stop. */
export const podsTopic = "pods"

/** The live processes of the cluster: their heartbeats, queues, slots and releases. */
export class Pods extends Context.Tag("nightshift/cluster/Pods")<
  Pods,
  {
    /**
     * Records a heartbeat with the pod's slots and state. Pods without a heartbeat for `liveWithin` are not counted as
     * servingPods. `deadAfter` is how long this pod may be silent while its lock is free; it is recorded only if the pod
     * holds its lock. Absent: the pod is not dead while it is silent, because it does not hold its lock or is about to free it.
     */
    readonly beat: (
      facts: PodFacts,
      state: PodState,
      liveWithin: Duration.Duration,
      deadAfter?: Duration.Duration
    ) => Effect.Effect<Assignment, DatabaseError>

    /**
     * Records the heartbeats of remote workers, which have no lock, with one statement. Returns the shares of those that have a
     * row, and the number of pods that serve their queues, like `beat`.
     */
    readonly beatRemote: (
      workers: ReadonlyArray<RemotePod>,
      liveWithin: Duration.Duration
    ) => Effect.Effect<ReadonlyMap<PodId, Pick<Assignment, "shares" | "servingPods">>, DatabaseError>

    /**
     * Holds the pod's lock until the Scope closes, and takes it again when it is lost. The database frees it as soon as it
     * notices that the process has ended. Returns how long it has been held without a break; None while it is not held,
     * and always None behind a pooler.
     */
    readonly holdLock: (id: PodId) => Effect.Effect<Effect.Effect<Option.Option<Duration.Duration>>, never, Scope.Scope>

    /**
     * Removes pods that held their lock at their last heartbeat, that this process has seen without a new heartbeat for their
     * `deadAfter`, and whose lock was free at two calls, this one and one at least `betweenTests` ago, with their shares. A
     * process calls it after each of its heartbeats that returned silent pods. Every pod is returned to one caller only. Removes
     * none unless the pod `by` holds its own lock: if all locks were lost at once, no pod is dead.
     */
    readonly removeUnlocked: (by: PodId) => Effect.Effect<ReadonlyArray<UnlockedPod>, DatabaseError>

    /**
     * Pods that are alive, by id; use this for decisions. A pod is alive unless this process has seen its heartbeat
     * unchanged for `within` on this process's monotonic clock. So a pod that this process sees for the first time
     * counts as alive.
     */
    readonly present: (within: Duration.Duration) => Effect.Effect<ReadonlyArray<StoredPod>, DatabaseError>

    /**
     * Pods whose last heartbeat is newer than `within` by the wall clock, by id. Use this for display: it needs no
     * earlier observation.
     */
    readonly live: (within: Duration.Duration) => Effect.Effect<ReadonlyArray<StoredPod>, DatabaseError>

    /** Removes a stopped pod's row and its shares. */
    readonly leave: (id: PodId) => Effect.Effect<void, DatabaseError>

    /**
     * Removes pods that this process has seen without a heartbeat for `silentFor`, their shares, and shares of pods
     * that do not exist. Returns the removed pods. An infinite duration only watches heartbeats.
     */
    readonly removeDead: (silentFor: Duration.Duration) => Effect.Effect<ReadonlyArray<PodId>, DatabaseError>
  }
>() {}

import { Context, type Duration, type Effect } from "effect"
import type { PodId } from "../core/Ids.js"
import type { DatabaseError } from "../database/DatabaseError.js"

/** What a pod is from its boot to its end. */
export interface PodFacts {
  readonly id: PodId
  /** What operators call it, where they do. */
  readonly label: string | undefined
  readonly version: string
  /** The queues it serves. */
  readonly queues: ReadonlyArray<string>
  /** The kinds it has handlers for. */
  readonly kinds: ReadonlyArray<string>
  readonly host: { readonly name: string; readonly pid: number; readonly node: string }
  /** Epoch milliseconds. */
  readonly startedAt: number
}

/** A queue's slots on a pod. */
export interface QueueSlots {
  readonly queue: string
  /** How many there should be, how many there are, and in how many a job runs. */
  readonly wanted: number
  readonly have: number
  readonly busy: number
}

/** What changes while it runs. */
export interface PodState {
  readonly slots: ReadonlyArray<QueueSlots>
  /** It has been told to stop and takes no new jobs. */
  readonly draining: boolean
}

export interface StoredPod extends PodFacts, PodState {
  readonly heartbeatAt: number
  /** The PostgreSQL server that wrote its last beat, by `ServerIdentity`; absent in memory and of older releases. */
  readonly server: string | undefined
}

/** What a pod hears back when it shows itself. */
export interface Orders {
  /** The slots that the leader assigned to it, by queue; absent where the leader has not spoken yet. */
  readonly shares: ReadonlyMap<string, number>
  /** How many live pods take jobs of each of its queues, itself included. */
  readonly companions: ReadonlyMap<string, number>
}

/** Where it is said that a pod came, is about to go, or went. */
export const podsTopic = "pods"

/** The processes of the cluster. */
export class Pods extends Context.Tag("nightshift/cluster/Pods")<
  Pods,
  {
    /** Shows that a pod lives, with its slots and state; others count as its companions unless they were quiet for this long. */
    readonly beat: (
      facts: PodFacts,
      state: PodState,
      liveWithin: Duration.Duration
    ) => Effect.Effect<Orders, DatabaseError>

    /**
     * Pods that were not seen quiet for this long, by id: what the cluster decides by. This process compares their beats with
     * those of its earlier looks and times them by its own steady clock, so a pod that it sees for the first time counts.
     */
    readonly present: (within: Duration.Duration) => Effect.Effect<ReadonlyArray<StoredPod>, DatabaseError>

    /** Pods whose last beat is this recent by the clock, by id: what people are shown, right at the first look. */
    readonly live: (within: Duration.Duration) => Effect.Effect<ReadonlyArray<StoredPod>, DatabaseError>

    /** A pod is over: its row and its shares go. */
    readonly leave: (id: PodId) => Effect.Effect<void, DatabaseError>

    /** Removes pods that were seen quiet for this long, with their shares and those of pods that do not exist. Returns them. */
    readonly removeDead: (silentFor: Duration.Duration) => Effect.Effect<ReadonlyArray<PodId>, DatabaseError>
  }
>() {}

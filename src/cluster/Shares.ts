import { Context, type Effect } from "effect"
import type { PodId, Term } from "../core/Ids.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { TermEnded } from "./Leadership.js"
import type { StoredPod } from "./Pods.js"

/** The number of slots of a queue that are assigned to a pod. */
export interface Share {
  readonly queue: string
  readonly pod: PodId
  readonly slots: number
}

/** Topic of hints for changed slot assignments. */
export const sharesTopic = "shares"

/** The slot assignments of the cluster, written by the leader. */
export class Shares extends Context.Tag("nightshift/cluster/Shares")<
  Shares,
  {
    /** All shares, ordered by queue and pod. */
    readonly all: Effect.Effect<ReadonlyArray<Share>, DatabaseError>

    /** Sets these shares atomically and leaves all other shares unchanged. Changes nothing if the term has ended. */
    readonly assign: (term: Term, shares: ReadonlyArray<Share>) => Effect.Effect<void, TermEnded | DatabaseError>
  }
>() {}

// How the leader assigns slots to pods. Pure, so every leader computes the same split for the same cluster.

const byId = (a: PodId, b: PodId) => (a < b ? -1 : a > b ? 1 : 0)

/** Splits a total evenly over pods. The first pods by id get the remainder. */
export const evenly = (total: number, pods: ReadonlyArray<PodId>): ReadonlyMap<PodId, number> => {
  const each = Math.floor(total / Math.max(1, pods.length))
  const left = total - each * pods.length
  return new Map([...pods].sort(byId).map((pod, place) => [pod, each + (place < left ? 1 : 0)]))
}

/** Returns the shares that must change: pods that serve a queue get their part of its total, other pods get 0. */
export const shareChanges = (
  queues: ReadonlyArray<{ readonly name: string; readonly maxWorkers: number }>,
  pods: ReadonlyArray<Pick<StoredPod, "id" | "queues" | "draining">>,
  standing: ReadonlyArray<Share>
): ReadonlyArray<Share> => {
  const keyOf = (queue: string, pod: PodId) => `${pod} ${queue}`
  const slotsOf = new Map(standing.map(({ pod, queue, slots }) => [keyOf(queue, pod), slots]))
  const due = queues.flatMap(({ maxWorkers, name }): ReadonlyArray<Share> => {
    const serving = pods.filter(({ draining, queues: served }) => !draining && served.includes(name))
    const parts = evenly(
      maxWorkers,
      serving.map(({ id }) => id)
    )
    return [...parts].map(([pod, slots]) => ({ queue: name, pod, slots }))
  })
  const served = new Set(due.map(({ pod, queue }) => keyOf(queue, pod)))
  // A queue whose settings row is missing keeps its shares, because its pods keep their slots too.
  const known = new Set(queues.map(({ name }) => name))
  const nothing = standing
    .filter(({ pod, queue, slots }) => known.has(queue) && slots > 0 && !served.has(keyOf(queue, pod)))
    .map((share) => ({ ...share, slots: 0 }))
  return [...due.filter(({ pod, queue, slots }) => slotsOf.get(keyOf(queue, pod)) !== slots), ...nothing]
}

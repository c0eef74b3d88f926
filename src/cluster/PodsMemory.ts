import { Duration, Effect, Layer } from "effect"
import type { PodId } from "../core/Ids.js"
import { Pods, type StoredPod } from "./Pods.js"
import { ShareTable } from "./ShareTableMemory.js"

const step = <A>(act: (now: number) => A): Effect.Effect<A> =>
  Effect.clockWith((clock) => Effect.sync(() => act(clock.unsafeCurrentTimeMillis())))

export const layer: Layer.Layer<Pods, never, ShareTable> = Layer.effect(
  Pods,
  Effect.map(ShareTable, (shares) => {
    const pods = new Map<PodId, StoredPod>()
    const liveSince = (instant: number) =>
      [...pods.values()].filter(({ heartbeatAt }) => heartbeatAt > instant).sort((a, b) => (a.id < b.id ? -1 : 1))

    return {
      beat: (facts, state, liveWithin) =>
        step((now) => {
          pods.set(facts.id, { ...facts, ...state, heartbeatAt: now })
          const others = liveSince(now - Duration.toMillis(liveWithin)).filter(
            ({ draining, id }) => id !== facts.id && !draining
          )
          const shareOf = (queue: string) => {
            const slots = shares.slotsOf(queue, facts.id)
            return slots === undefined ? [] : [[queue, slots] as const]
          }
          return {
            shares: new Map(facts.queues.flatMap(shareOf)),
            companions: new Map(
              facts.queues.map((queue) => [queue, others.filter(({ queues }) => queues.includes(queue)).length + 1])
            )
          }
        }),
      live: (within) => step((now) => liveSince(now - Duration.toMillis(within))),
      leave: (id) =>
        step(() => {
          pods.delete(id)
          shares.removeWhere((pod) => pod === id)
        }),
      removeDead: (silentFor) =>
        step((now) => {
          const live = new Set(liveSince(now - Duration.toMillis(silentFor)).map(({ id }) => id))
          const dead = [...pods.keys()].filter((id) => !live.has(id)).sort()
          for (const id of dead) pods.delete(id)
          shares.removeWhere((pod) => !pods.has(pod))
          return dead
        })
    }
  })
)

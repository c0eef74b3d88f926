import { type Clock, Duration, Effect, Layer } from "effect"
import { ChangeWatch, perClock, steadyMillis } from "../core/ChangeWatch.js"
import type { PodId } from "../core/Ids.js"
import { Pods, type StoredPod } from "./Pods.js"
import { ShareTable } from "./ShareTableMemory.js"

const step = <A>(act: (clock: Clock.Clock) => A): Effect.Effect<A> =>
  Effect.clockWith((clock) => Effect.sync(() => act(clock)))

export const layer: Layer.Layer<Pods, never, ShareTable> = Layer.effect(
  Pods,
  Effect.map(ShareTable, (shares) => {
    const pods = new Map<PodId, StoredPod>()
    const watchOf = perClock(() => new ChangeWatch<PodId, number>())
    const sorted = () => [...pods.values()].sort((a, b) => (a.id < b.id ? -1 : 1))

    /** Records all heartbeats and returns the ids of pods without a new one for `within`. */
    const quiet = (within: Duration.Duration, clock: Clock.Clock): ReadonlySet<PodId> => {
      const now = steadyMillis(clock)
      const watch = watchOf(clock)
      watch.look(
        [...pods.values()].map(({ heartbeatAt, id }) => [id, heartbeatAt]),
        now
      )
      return new Set(watch.quietFor(Duration.toMillis(within), now).map(([id]) => id))
    }

    return {
      beat: (facts, state, liveWithin) =>
        step((clock) => {
          pods.set(facts.id, { ...facts, ...state, heartbeatAt: clock.unsafeCurrentTimeMillis(), server: undefined })
          const silent = quiet(liveWithin, clock)
          const others = [...pods.values()].filter(
            ({ draining, id }) => id !== facts.id && !draining && !silent.has(id)
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
      present: (within) =>
        step((clock) => {
          const silent = quiet(within, clock)
          return sorted().filter(({ id }) => !silent.has(id))
        }),
      live: (within) =>
        step((clock) => {
          const since = clock.unsafeCurrentTimeMillis() - Duration.toMillis(within)
          return sorted().filter(({ heartbeatAt }) => heartbeatAt > since)
        }),
      leave: (id) =>
        step(() => {
          pods.delete(id)
          shares.removeWhere((pod) => pod === id)
        }),
      removeDead: (silentFor) =>
        step((clock) => {
          const dead = [...quiet(silentFor, clock)].sort()
          for (const id of dead) pods.delete(id)
          shares.removeWhere((pod) => !pods.has(pod))
          return dead
        })
    }
  })
)

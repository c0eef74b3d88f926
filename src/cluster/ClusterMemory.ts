import { isDeepStrictEqual } from "node:util"
import { type Clock, Context, Duration, Effect, Layer, Option } from "effect"
import { ChangeWatch, perClock, steadyMillis } from "../core/ChangeWatch.js"
import { type PodId, Term } from "../core/Ids.js"
import { inOrder } from "../core/LayersInOrder.js"
import { idleUntil } from "../core/Loop.js"
import { PodIds } from "../core/PodIdsMemory.js"
import { type Leader, Leadership, TermEnded } from "./Leadership.js"
import * as LeadershipWatch from "./LeadershipWatch.js"
import { betweenTests, type PodFacts, Pods, type StoredPod, type UnlockedPod } from "./Pods.js"
import { type Share, Shares } from "./Shares.js"

const seenAs = ({ term, until }: Leader): LeadershipWatch.LeaseSeen => ({ term, until: `${until}` })

export const leadership: Layer.Layer<Leadership> = Layer.sync(Leadership, () => {
  const watchOf = LeadershipWatch.make()
  let held: Leader | undefined
  let lastTerm = 0

  return {
    campaign: (pod, lease) =>
      Effect.clockWith((clock) =>
        Effect.sync(() => {
          const watch = watchOf(clock)
          const now = steadyMillis(clock)
          const expired = watch.expired(lease, now)
          const isExpired = held !== undefined && expired?.term === held.term && expired.until === `${held.until}`
          if (held !== undefined && held.pod !== pod && !isExpired) {
            watch.saw(seenAs(held), now)
            watch.lost(pod)
            return Option.none()
          }
          if (held?.pod !== pod || watch.termOf(pod, now) !== held.term) lastTerm += 1
          held = {
            pod,
            term: Term.make(lastTerm),
            until: clock.unsafeCurrentTimeMillis() + Duration.toMillis(lease)
          }
          watch.saw(seenAs(held), now)
          watch.took(pod, held.term, lease, now)
          return Option.some(held.term)
        })
      ),
    resign: (pod, term) =>
      Effect.sync(() => {
        if (held?.pod === pod && (term === undefined || held.term === term)) held = undefined
      }),
    assertTerm: (term) => Effect.suspend(() => (held?.term === term ? Effect.void : new TermEnded({ term }))),
    leader: Effect.sync(() => Option.fromNullable(held))
  }
})

const keyOf = ({ pod, queue }: Pick<Share, "pod" | "queue">) => `${queue} ${pod}`

/** The in-memory share table, used by both Pods and Shares. */
export class ShareTable extends Context.Tag("nightshift/cluster/ShareTableMemory")<
  ShareTable,
  {
    readonly put: (share: Share) => void
    readonly slotsOf: (queue: string, pod: PodId) => number | undefined
    readonly all: () => ReadonlyArray<Share>
    readonly removeWhere: (matches: (pod: PodId) => boolean) => void
  }
>() {
  static readonly layer: Layer.Layer<ShareTable> = Layer.sync(ShareTable, () => {
    const shares = new Map<string, Share>()
    return {
      put: (share) => void shares.set(keyOf(share), share),
      slotsOf: (queue, pod) => shares.get(keyOf({ queue, pod }))?.slots,
      all: () => [...shares].sort(([left], [right]) => (left < right ? -1 : 1)).map(([, share]) => share),
      removeWhere: (matches) => {
        for (const [key, { pod }] of shares) if (matches(pod)) shares.delete(key)
      }
    }
  })
}

/** The locks of pods in memory. A simulation takes a lock from a pod that lives, or lets the lock of a dead pod stay. */
export class LockTable extends Context.Tag("nightshift/cluster/LockTableMemory")<
  LockTable,
  {
    /** Takes a lock and calls `onChange` now, and when it is lost or taken again. Returns a function that frees it. */
    readonly take: (pod: PodId, onChange: (isHeld: boolean) => void) => () => void
    readonly isFree: (pod: PodId) => boolean
    /** Ends the session that holds a lock, or lets its pod take it again. */
    readonly setHeld: (pod: PodId, isHeld: boolean) => void
  }
>() {
  static readonly layer: Layer.Layer<LockTable> = Layer.sync(LockTable, () => {
    const locks = new Map<PodId, { isHeld: boolean; readonly onChange: (isHeld: boolean) => void }>()
    return {
      take: (pod, onChange) => {
        locks.set(pod, { isHeld: true, onChange })
        onChange(true)
        return () => void locks.delete(pod)
      },
      isFree: (pod) => locks.get(pod)?.isHeld !== true,
      setHeld: (pod, isHeld) => {
        const lock = locks.get(pod)
        if (lock === undefined || lock.isHeld === isHeld) return
        lock.isHeld = isHeld
        lock.onChange(isHeld)
      }
    }
  })
}

const step = <A>(act: (clock: Clock.Clock) => A): Effect.Effect<A> =>
  Effect.clockWith((clock) => Effect.sync(() => act(clock)))

const otherReleases = (queue: string, { releases: own }: PodFacts, others: ReadonlyArray<PodFacts>) => {
  const isOther = ({ queues, releases }: PodFacts) => queues.includes(queue) && !isDeepStrictEqual(releases, own)
  const found = others.filter(isOther).map(({ releases }) => releases)
  const distinct = found.filter((each, index) => found.findIndex((other) => isDeepStrictEqual(other, each)) === index)
  return distinct.length === 0 ? [] : [[queue, distinct] as const]
}

const pods: Layer.Layer<Pods, never, ShareTable | LockTable> = Layer.effect(
  Pods,
  Effect.map(Effect.all([ShareTable, LockTable, Effect.serviceOption(PodIds)]), ([shares, locks, shared]) => {
    const pods = new Map<PodId, StoredPod>()
    /** Shared with the queue in memory, if there is one. */
    const ids = Option.getOrElse(shared, () => new Set<PodId>())
    /** Milliseconds, of the pods that held their lock at their last heartbeat. */
    const deadAfter = new Map<PodId, number>()
    const watchOf = perClock(() => new ChangeWatch<PodId, number>())
    const testsOf = perClock(() => ({
      /** When the last heartbeat of this process arrived, on its monotonic clock. */
      beatAt: Number.NEGATIVE_INFINITY,
      /** The heartbeats of the silent pods whose lock was free at the last test. */
      unlocked: new ChangeWatch<PodId, number>()
    }))
    const oldestBeat = () => Math.min(...[...pods.values()].map(({ heartbeatAt }) => heartbeatAt))
    const sorted = () => [...pods.values()].sort((a, b) => (a.id < b.id ? -1 : 1))

    /** Records all heartbeats and returns the ids of pods without a new one for `within`. */
    const quiet = (within: Duration.Duration, clock: Clock.Clock): ReadonlySet<PodId> => {
      const now = steadyMillis(clock)
      const watch = watchOf(clock)
      watch.record(
        [...pods.values()].map(({ heartbeatAt, id }) => [id, heartbeatAt]),
        now
      )
      return new Set(watch.quietFor(Duration.toMillis(within), now).map(([id]) => id))
    }

    /** The pods without a heartbeat for more than half of their `deadAfter`, as of the last `quiet`. */
    const silent = (clock: Clock.Clock) => {
      const now = steadyMillis(clock)
      return sorted().flatMap(({ heartbeatAt, id }) => {
        const silentFor = watchOf(clock).unchangedFor(id, now)
        const limit = deadAfter.get(id) ?? Number.POSITIVE_INFINITY
        return silentFor > limit / 2 ? [{ id, heartbeatAt, limit, silentFor }] : []
      })
    }

    /** The pods without a heartbeat for their `deadAfter`, whose lock was free at this test and at an earlier one. */
    const unlocked = (clock: Clock.Clock): ReadonlyArray<UnlockedPod> => {
      const { beatAt, unlocked } = testsOf(clock)
      const free = silent(clock).filter(({ id }) => locks.isFree(id))
      unlocked.record(
        free.map(({ heartbeatAt, id }) => [id, heartbeatAt]),
        beatAt
      )
      return free.flatMap(({ id, limit, silentFor }) =>
        silentFor >= limit && unlocked.unchangedFor(id, beatAt) >= limit * betweenTests
          ? [{ id, silentFor: Duration.millis(silentFor) }]
          : []
      )
    }

    const remove = (dead: Iterable<PodId>) => {
      for (const id of dead) {
        pods.delete(id)
        ids.delete(id)
        deadAfter.delete(id)
      }
      shares.removeWhere((pod) => !pods.has(pod))
    }

    return {
      holdLock: (id) =>
        Effect.clockWith((clock) => {
          let since: number | undefined
          const onChange = (isHeld: boolean) => {
            since = isHeld ? steadyMillis(clock) : undefined
          }
          const heldFor = Effect.sync(() =>
            Option.map(Option.fromNullable(since), (from) => Duration.millis(steadyMillis(clock) - from))
          )
          return Effect.acquireRelease(
            Effect.sync(() => locks.take(id, onChange)),
            (free) => Effect.sync(free)
          ).pipe(Effect.as(heldFor))
        }),
      removeUnlocked: (by) =>
        step((clock) => {
          quiet(Duration.infinity, clock)
          const dead = locks.isFree(by) ? [] : unlocked(clock)
          if (dead.length > 0) remove(dead.map(({ id }) => id))
          return dead
        }),
      beat: (facts, state, liveWithin, limit) =>
        step((clock) => {
          pods.set(facts.id, { ...facts, ...state, heartbeatAt: clock.unsafeCurrentTimeMillis(), server: undefined })
          ids.add(facts.id)
          testsOf(clock).beatAt = steadyMillis(clock)
          if (limit === undefined || locks.isFree(facts.id)) deadAfter.delete(facts.id)
          else deadAfter.set(facts.id, Duration.toMillis(limit))
          const notLive = quiet(liveWithin, clock)
          const others = [...pods.values()].filter(
            ({ draining, id }) => id !== facts.id && !draining && !notLive.has(id)
          )
          const shareOf = (queue: string) => {
            const slots = shares.slotsOf(queue, facts.id)
            return slots === undefined ? [] : [[queue, slots] as const]
          }
          return {
            shares: new Map(facts.queues.flatMap(shareOf)),
            servingPods: new Map(
              facts.queues.map((queue) => [queue, others.filter(({ queues }) => queues.includes(queue)).length + 1])
            ),
            otherReleases: new Map(facts.queues.flatMap((queue) => otherReleases(queue, facts, others))),
            silent: silent(clock).flatMap(({ id }) => (id === facts.id ? [] : [id]))
          }
        }),
      beatRemote: (workers, liveWithin) =>
        step((clock) => {
          const present = workers.filter(({ id, joins }) => joins || pods.has(id))
          for (const { joins: _, ...worker } of present) {
            pods.set(worker.id, { ...worker, heartbeatAt: clock.unsafeCurrentTimeMillis(), server: undefined })
            ids.add(worker.id)
          }
          const notLive = quiet(liveWithin, clock)
          const live = [...pods.values()].filter(({ draining, id }) => !draining && !notLive.has(id))
          return new Map(
            present.map(({ id, queues }) => [
              id,
              {
                shares: new Map(
                  queues.flatMap((queue) => {
                    const slots = shares.slotsOf(queue, id)
                    return slots === undefined ? [] : [[queue, slots] as const]
                  })
                ),
                servingPods: new Map(
                  queues.map((queue) => [queue, live.filter((pod) => pod.queues.includes(queue)).length])
                )
              }
            ])
          )
        }),
      present: (within) =>
        step((clock) => {
          const notPresent = quiet(within, clock)
          return sorted().filter(({ id }) => !notPresent.has(id))
        }),
      live: (within) =>
        step((clock) => {
          const since = clock.unsafeCurrentTimeMillis() - Duration.toMillis(within)
          return sorted().filter(({ heartbeatAt }) => heartbeatAt > since)
        }),
      leave: (id) =>
        step(() => {
          pods.delete(id)
          ids.delete(id)
          deadAfter.delete(id)
          shares.removeWhere((pod) => pod === id)
        }),
      removeDead: (silentFor) =>
        step((clock) => {
          const dead = [...quiet(silentFor, clock)].sort()
          remove(dead)
          return dead
          // A pass that only watches says nothing about when a pod may be removed.
        }).pipe(
          Effect.zipLeft(
            idleUntil(() => oldestBeat() + (Duration.isFinite(silentFor) ? Duration.toMillis(silentFor) : 0))
          )
        )
    }
  })
)

const shares: Layer.Layer<Shares, never, Leadership | ShareTable> = Layer.effect(
  Shares,
  Effect.gen(function* () {
    const table = yield* ShareTable
    const leadership = yield* Leadership
    return {
      all: Effect.sync(table.all),
      assign: (term, shares) =>
        Effect.zipRight(
          leadership.assertTerm(term),
          Effect.sync(() => shares.forEach(table.put))
        )
    }
  })
)

/** In-memory cluster services. Several pods in one process can form a cluster. */
export const layer: Layer.Layer<Pods | Shares | Leadership | LockTable> = inOrder(
  leadership,
  ShareTable.layer,
  LockTable.layer,
  pods,
  shares
)

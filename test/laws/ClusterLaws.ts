import { expect, layer as withLayer } from "@effect/vitest"
import { Duration, Effect, type Layer, Option, type Scope } from "effect"
import { Leadership } from "../../src/cluster/Leadership.js"
import { type PodFacts, type PodState, Pods } from "../../src/cluster/Pods.js"
import { type Share, Shares } from "../../src/cluster/Shares.js"
import { makeGenerator, type PodId, Term } from "../../src/core/Ids.js"
import { setBy } from "../support/SetClock.js"
import type { Advance } from "./Line.js"
import { podLockLaws } from "./PodLockLaws.js"

type Ports = Pods | Shares | Leadership

const within = Duration.seconds(15)

/** The context of a law: the ports without any pods, and helpers that act as pods. */
export interface TestCluster {
  readonly pods: typeof Pods.Service
  readonly shares: typeof Shares.Service
  readonly leadership: typeof Leadership.Service
  readonly newPod: (more?: Partial<PodFacts>) => PodFacts
  readonly beat: (pod: PodFacts, state?: Partial<PodState>) => ReturnType<(typeof Pods.Service)["beat"]>
  readonly liveIds: Effect.Effect<ReadonlyArray<PodId>, unknown>
  readonly sharesOf: (pod: PodFacts) => Effect.Effect<ReadonlyArray<Share>, unknown>
  /** Starts a new term. */
  readonly newTerm: Effect.Effect<Term, unknown>
}

export type ClusterLaw = (
  title: string,
  story: (cluster: TestCluster) => Effect.Effect<void, unknown, Scope.Scope>
) => void

const open = (advance: Advance): Effect.Effect<TestCluster, never, Ports> =>
  Effect.gen(function* () {
    yield* advance("1 minute")
    const pods = yield* Pods
    const shares = yield* Shares
    const leadership = yield* Leadership
    const ids = yield* makeGenerator
    yield* Effect.orDie(pods.removeDead(Duration.zero))
    return {
      pods,
      shares,
      leadership,
      newPod: (more = {}) => ({
        id: ids.pod(1),
        label: undefined,
        version: "1.0.0",
        queues: ["mail"],
        kinds: ["greet"],
        releases: {},
        host: { name: "here", pid: 17, node: "v20.0.0" },
        startedAt: 1_700_000_000_000,
        ...more
      }),
      beat: (pod, state = {}) => pods.beat(pod, { slots: [], draining: false, ...state }, within),
      liveIds: Effect.map(pods.live(within), (live) => live.map(({ id }) => id)),
      sharesOf: (pod) => Effect.map(shares.all, (all) => all.filter((share) => share.pod === pod.id)),
      newTerm: Effect.gen(function* () {
        const leader = Option.getOrUndefined(yield* leadership.leader)
        if (leader !== undefined) yield* leadership.resign(leader.pod, leader.term)
        return Option.getOrThrow(yield* leadership.campaign(ids.pod(1), Duration.seconds(15)))
      })
    }
  })

/** Laws of the cluster ports. All laws share the layer; each starts without pods. */
export const clusterLaws = (
  name: string,
  layer: Layer.Layer<Ports>,
  options: { readonly clock: "test" | "live"; readonly advance: Advance }
): void =>
  withLayer(layer, { excludeTestServices: options.clock === "live" })(name, (it) => {
    const { advance } = options
    const law: ClusterLaw = (title, story) => it.scoped(title, () => Effect.flatMap(open(advance), story))

    podLockLaws(law, advance)

    law("a pod with a heartbeat is live and listed as of its last heartbeat", (cluster) =>
      Effect.gen(function* () {
        const pod = cluster.newPod({ label: 'a "label"', queues: ["mail", "a.b-c_d"], kinds: [], connections: 21 })
        yield* cluster.beat(pod)
        yield* advance("1 second")
        const slots = [{ queue: "mail", wanted: 4, have: 3, busy: 1 }]
        yield* cluster.beat(pod, { slots, draining: true })
        const [stored, ...others] = yield* cluster.pods.live(within)
        expect(others).toEqual([])
        expect(stored).toMatchObject({ ...pod, slots, draining: true })
        yield* advance("1 second")
        yield* cluster.beat(pod)
        const [later] = yield* cluster.pods.live(within)
        expect(later).toMatchObject({ slots: [], draining: false, heartbeatAt: (stored?.heartbeatAt ?? 0) + 1_000 })
      })
    )

    law(
      "the heartbeats of remote workers are one call, which returns their shares and the pods of their queues",
      (cluster) =>
        Effect.gen(function* () {
          const state = { slots: [{ queue: "mail", wanted: 1, have: 1, busy: 1 }], draining: false }
          const process = cluster.newPod()
          yield* cluster.beat(process)
          const [one, two] = [cluster.newPod(), cluster.newPod({ queues: ["mail", "sms"] })]
          const assigned = yield* cluster.pods.beatRemote(
            [
              { ...one, ...state, joins: true },
              { ...two, ...state, joins: true }
            ],
            within
          )
          expect([...assigned.keys()].sort()).toEqual([one.id, two.id].sort())
          expect(assigned.get(one.id)?.shares).toEqual(new Map())
          yield* cluster.shares.assign(yield* cluster.newTerm, [{ queue: "mail", pod: two.id, slots: 3 }])
          yield* advance("1 second")
          const served = { ...two, queues: ["mail", "push"], kinds: ["other"] }
          const later = yield* cluster.pods.beatRemote([{ ...served, ...state, joins: false }], within)
          expect(later.get(two.id)).toEqual({
            shares: new Map([["mail", 3]]),
            servingPods: new Map([
              ["mail", 3],
              ["push", 1]
            ])
          })
          const stored = (yield* cluster.pods.live(within)).find(({ id }) => id === two.id)
          expect(stored).toMatchObject({ ...served, ...state })
          yield* cluster.pods.leave(one.id)
          yield* cluster.pods.leave(two.id)
          expect(yield* cluster.liveIds).toEqual([process.id])
          // A process that has not heard that a worker has left does not bring it back.
          const left = [
            { ...one, ...state, joins: false },
            { ...two, ...state, joins: true }
          ]
          expect([...(yield* cluster.pods.beatRemote(left, within)).keys()]).toEqual([two.id])
          expect(yield* cluster.liveIds).toEqual([process.id, two.id].sort())
        })
    )

    law("a silent pod is no longer live, and is live again after its next heartbeat", (cluster) =>
      Effect.gen(function* () {
        const [silent, other] = [cluster.newPod(), cluster.newPod()]
        yield* cluster.beat(silent)
        yield* advance("14 seconds")
        yield* cluster.beat(other)
        expect(yield* cluster.liveIds).toEqual([silent.id, other.id])
        yield* advance("1 second")
        expect(yield* cluster.liveIds).toEqual([other.id])
        yield* cluster.beat(silent)
        expect(yield* cluster.liveIds).toEqual([silent.id, other.id])
      })
    )

    for (const [how, millis] of [
      ["back", -300_000],
      ["forward", 300_000]
    ] as const) {
      law(`a pod whose clock was set ${how} by minutes sees the live pods, and removes only dead ones`, (cluster) =>
        Effect.gen(function* () {
          const elsewhere = yield* setBy(millis)
          const seen = Effect.map(elsewhere(cluster.pods.present(within)), (pods) => pods.map(({ id }) => id))
          const [observer, silent, living] = [cluster.newPod(), cluster.newPod(), cluster.newPod()]
          yield* cluster.beat(silent)
          for (let seconds = 0; seconds < 15; seconds += 5) {
            yield* cluster.beat(living)
            yield* elsewhere(cluster.beat(observer))
            expect(yield* seen).toEqual([observer.id, silent.id, living.id].sort())
            expect(yield* elsewhere(cluster.pods.removeDead(within))).toEqual([])
            yield* advance("5 seconds")
          }
          yield* cluster.beat(living)
          expect((yield* elsewhere(cluster.beat(observer))).servingPods).toEqual(new Map([["mail", 2]]))
          expect(yield* seen).toEqual([observer.id, living.id].sort())
          expect(yield* elsewhere(cluster.pods.removeDead(within))).toEqual([silent.id])
        })
      )
    }

    law("a heartbeat returns the releases of other live pods of its queues that differ from its own", (cluster) =>
      Effect.gen(function* () {
        const same = cluster.newPod({ releases: { order: "a", refund: "b" } })
        const next = cluster.newPod({ releases: { order: "c" } })
        yield* cluster.beat(same)
        yield* cluster.beat(next)
        yield* cluster.beat(cluster.newPod({ releases: { order: "c" } }))
        yield* cluster.beat(cluster.newPod({ releases: { order: "d" }, queues: ["push"] }))
        yield* cluster.beat(cluster.newPod({ releases: { order: "e" } }), { draining: true })
        const own = cluster.newPod({ releases: { refund: "b", order: "a" } })
        expect((yield* cluster.beat(own)).otherReleases).toEqual(new Map([["mail", [{ order: "c" }]]]))
        expect((yield* cluster.beat(cluster.newPod({ queues: ["sms"] }))).otherReleases).toEqual(new Map())
      })
    )

    law("a heartbeat returns how many live pods serve each queue, and the assigned slots", (cluster) =>
      Effect.gen(function* () {
        const one = cluster.newPod({ queues: ["mail", "push"] })
        const two = cluster.newPod({ queues: ["push", "sms"] })
        const [draining, silent] = [cluster.newPod({ queues: ["mail"] }), cluster.newPod({ queues: ["mail"] })]
        yield* cluster.beat(silent)
        yield* cluster.pods.present(within)
        yield* advance("20 seconds")
        yield* cluster.beat(draining, { draining: true })
        yield* cluster.beat(two)
        const first = yield* cluster.beat(one)
        expect(first.servingPods).toEqual(
          new Map([
            ["mail", 1],
            ["push", 2]
          ])
        )
        expect(first.shares).toEqual(new Map())
        yield* cluster.shares.assign(yield* cluster.newTerm, [
          { queue: "push", pod: one.id, slots: 4 },
          { queue: "mail", pod: one.id, slots: 0 },
          { queue: "push", pod: two.id, slots: 3 }
        ])
        expect((yield* cluster.beat(one)).shares).toEqual(
          new Map([
            ["mail", 0],
            ["push", 4]
          ])
        )
        expect((yield* cluster.beat(two)).shares).toEqual(new Map([["push", 3]]))
      })
    )

    law("a pod that leaves is removed with its shares, and the others stay", (cluster) =>
      Effect.gen(function* () {
        const [leaving, staying] = [cluster.newPod(), cluster.newPod()]
        yield* cluster.beat(leaving)
        yield* cluster.beat(staying)
        const slots = { queue: "mail", slots: 5 }
        const term = yield* cluster.newTerm
        yield* cluster.shares.assign(term, [
          { ...slots, pod: leaving.id },
          { ...slots, pod: staying.id }
        ])
        yield* cluster.beat(leaving)
        yield* cluster.beat(staying)
        yield* cluster.pods.leave(leaving.id)
        expect(yield* cluster.liveIds).toEqual([staying.id])
        expect(yield* cluster.shares.all).toEqual([{ ...slots, pod: staying.id }])
        yield* cluster.pods.leave(leaving.id)
      })
    )

    law("pods that are silent for too long are removed with their shares, and so are orphaned shares", (cluster) =>
      Effect.gen(function* () {
        const [dead, live, never] = [cluster.newPod(), cluster.newPod(), cluster.newPod()]
        yield* cluster.beat(dead)
        yield* cluster.pods.present(within)
        yield* advance("1 minute")
        const slots = { queue: "mail", slots: 5 }
        yield* cluster.shares.assign(
          yield* cluster.newTerm,
          [dead, live, never].map(({ id }) => ({ ...slots, pod: id }))
        )
        yield* cluster.beat(live)
        expect(yield* cluster.pods.removeDead(Duration.seconds(60))).toEqual([dead.id])
        expect(yield* cluster.liveIds).toEqual([live.id])
        expect(yield* cluster.shares.all).toEqual([{ ...slots, pod: live.id }])
        expect(yield* cluster.pods.removeDead(Duration.seconds(60))).toEqual([])
      })
    )

    law("a pod that was presumed dead is listed whole again after its next heartbeat", (cluster) =>
      Effect.gen(function* () {
        const pod = cluster.newPod({ label: "back" })
        yield* cluster.beat(pod)
        expect(yield* cluster.pods.removeDead(Duration.seconds(60))).toEqual([])
        yield* advance("1 minute")
        expect(yield* cluster.pods.removeDead(Duration.seconds(60))).toEqual([pod.id])
        yield* cluster.beat(pod)
        expect(yield* cluster.pods.live(within)).toMatchObject([pod])
      })
    )

    law("an assignment replaces the shares it names, and keeps the others", (cluster) =>
      Effect.gen(function* () {
        const [one, two] = [cluster.newPod(), cluster.newPod()]
        const term = yield* cluster.newTerm
        yield* cluster.shares.assign(term, [
          { queue: "push", pod: two.id, slots: 1 },
          { queue: "mail", pod: one.id, slots: 2 }
        ])
        yield* cluster.shares.assign(term, [{ queue: "push", pod: two.id, slots: 64 }])
        yield* cluster.shares.assign(term, [])
        expect(yield* cluster.sharesOf(one)).toEqual([{ queue: "mail", pod: one.id, slots: 2 }])
        expect(yield* cluster.sharesOf(two)).toEqual([{ queue: "push", pod: two.id, slots: 64 }])
      })
    )

    law("nothing is assigned under an expired or unknown term", (cluster) =>
      Effect.gen(function* () {
        const pod = cluster.newPod()
        const old = yield* cluster.newTerm
        yield* cluster.shares.assign(old, [{ queue: "mail", pod: pod.id, slots: 2 }])
        const current = yield* cluster.newTerm
        for (const term of [old, Term.make(2_000_000_000)]) {
          const refused = cluster.shares.assign(term, [{ queue: "mail", pod: pod.id, slots: 9 }])
          expect(yield* Effect.flip(refused)).toMatchObject({ _tag: "TermEnded", term })
        }
        expect(yield* cluster.sharesOf(pod)).toEqual([{ queue: "mail", pod: pod.id, slots: 2 }])
        yield* cluster.shares.assign(current, [{ queue: "mail", pod: pod.id, slots: 3 }])
        yield* cluster.newTerm
        const late = cluster.shares.assign(current, [{ queue: "mail", pod: pod.id, slots: 4 }])
        expect(yield* Effect.flip(late)).toMatchObject({ _tag: "TermEnded", term: current })
        expect(yield* cluster.sharesOf(pod)).toEqual([{ queue: "mail", pod: pod.id, slots: 3 }])
      })
    )
  })

import { expect, layer as withLayer } from "@effect/vitest"
import { Duration, Effect, type Layer, Option } from "effect"
import { Leadership } from "../../src/cluster/Leadership.js"
import { makeGenerator, type PodId, Term } from "../../src/core/Ids.js"
import { setBy } from "../support/SetClock.js"
import type { Advance } from "./Line.js"

const lease = Duration.seconds(15)

/** The context of a law: no leader, and two candidates. */
interface Election {
  readonly leadership: typeof Leadership.Service
  readonly one: PodId
  readonly other: PodId
}

const open = (advance: Advance): Effect.Effect<Election, never, Leadership> =>
  Effect.gen(function* () {
    yield* advance("1 minute")
    const ids = yield* makeGenerator
    const leadership = yield* Leadership
    const before = Option.getOrUndefined(yield* Effect.orDie(leadership.leader))
    if (before !== undefined) yield* Effect.orDie(leadership.resign(before.pod))
    return { leadership, one: ids.pod(1), other: ids.pod(1) }
  })

/** Campaigns for a pod and returns its term. */
const win = ({ leadership }: Election, pod: PodId) =>
  Effect.flatMap(leadership.campaign(pod, lease), (term) =>
    Option.isSome(term) ? Effect.succeed(term.value) : Effect.dieMessage("another pod leads")
  )

/** Laws of leadership. All laws share the layer; each starts after the last lease has expired. */
export const leadershipLaws = (
  name: string,
  layer: Layer.Layer<Leadership>,
  options: { readonly clock: "test" | "live"; readonly advance: Advance }
): void =>
  withLayer(layer, { excludeTestServices: options.clock === "live" })(name, (it) => {
    const { advance } = options
    const law = (title: string, story: (election: Election) => Effect.Effect<void, unknown>) =>
      it.effect(title, () => Effect.flatMap(open(advance), story))

    law("there is no leader until a pod campaigns", ({ leadership }) =>
      Effect.gen(function* () {
        expect(yield* leadership.leader).toEqual(Option.none())
      })
    )

    law("the first pod to campaign leads, and the other does not", (election) =>
      Effect.gen(function* () {
        const { leadership, one, other } = election
        const term = yield* win(election, one)
        expect(yield* leadership.campaign(other, lease)).toEqual(Option.none())
        expect(Option.getOrThrow(yield* leadership.leader)).toMatchObject({ pod: one, term })
      })
    )

    law("a leader that renews in time keeps its term", (election) =>
      Effect.gen(function* () {
        const { leadership, one, other } = election
        const term = yield* win(election, one)
        const first = Option.getOrThrow(yield* leadership.leader)
        for (let renewal = 0; renewal < 3; renewal += 1) {
          yield* advance("14 seconds")
          expect(yield* win(election, one)).toBe(term)
        }
        expect(yield* leadership.campaign(other, lease)).toEqual(Option.none())
        const last = Option.getOrThrow(yield* leadership.leader)
        expect(last.until - first.until).toBe(Duration.toMillis("42 seconds"))
        yield* leadership.assertTerm(term)
      })
    )

    law("an expired lease stays with its leader until another pod takes it", (election) =>
      Effect.gen(function* () {
        const { leadership, one } = election
        const term = yield* win(election, one)
        yield* advance("15 seconds")
        expect(Option.getOrThrow(yield* leadership.leader)).toMatchObject({ pod: one, term })
        yield* leadership.assertTerm(term)
      })
    )

    for (const [how, millis] of [
      ["back", -120_000],
      ["forward", 300_000]
    ] as const) {
      law(`a pod whose clock was set ${how} by minutes waits for a live leader, and replaces a dead one`, (election) =>
        Effect.gen(function* () {
          const { leadership, one, other } = election
          const elsewhere = yield* setBy(millis)
          const tried = elsewhere(leadership.campaign(other, lease))
          const term = yield* win(election, one)
          for (let renewal = 0; renewal < 6; renewal += 1) {
            expect(yield* tried).toEqual(Option.none())
            yield* advance("5 seconds")
            expect(yield* win(election, one)).toBe(term)
          }
          for (let look = 0; look < 3; look += 1) {
            expect(yield* tried).toEqual(Option.none())
            yield* advance("5 seconds")
          }
          expect(Option.getOrThrow(yield* tried)).toBeGreaterThan(term)
          expect(yield* Effect.flip(leadership.assertTerm(term))).toMatchObject({ _tag: "TermEnded" })
        })
      )
    }

    law("a pod that has just started waits for a whole lease before it takes over an existing one", (election) =>
      Effect.gen(function* () {
        const { leadership, one, other } = election
        const started = yield* setBy(0)
        yield* win(election, one)
        yield* advance("1 minute")
        expect(yield* started(leadership.campaign(other, lease))).toEqual(Option.none())
        yield* advance("15 seconds")
        expect(Option.isSome(yield* started(leadership.campaign(other, lease)))).toBe(true)
      })
    )

    law("another process takes an expired lease under a higher term", (election) =>
      Effect.gen(function* () {
        const { leadership, one, other } = election
        const old = yield* win(election, one)
        yield* advance("15 seconds")
        const term = yield* win(election, other)
        expect(term).toBeGreaterThan(old)
        expect(yield* leadership.campaign(one, lease)).toEqual(Option.none())
        expect(yield* Effect.flip(leadership.assertTerm(old))).toMatchObject({ _tag: "TermEnded", term: old })
        yield* leadership.assertTerm(term)
      })
    )

    law("an expired term does not return, even if the same pod leads again", (election) =>
      Effect.gen(function* () {
        const { leadership, one } = election
        const old = yield* win(election, one)
        yield* advance("15 seconds")
        const term = yield* win(election, one)
        expect(term).toBeGreaterThan(old)
        expect(yield* Effect.flip(leadership.assertTerm(old))).toMatchObject({ _tag: "TermEnded" })
      })
    )

    law("a term that never existed has ended", ({ leadership }) =>
      Effect.gen(function* () {
        const term = Term.make(2_000_000_000)
        expect(yield* Effect.flip(leadership.assertTerm(term))).toMatchObject({ _tag: "TermEnded", term })
      })
    )

    law("a leader that resigns is replaced at once, under a higher term", (election) =>
      Effect.gen(function* () {
        const { leadership, one, other } = election
        const old = yield* win(election, one)
        yield* leadership.resign(one, old)
        expect(yield* leadership.leader).toEqual(Option.none())
        expect(yield* Effect.flip(leadership.assertTerm(old))).toMatchObject({ _tag: "TermEnded" })
        expect(yield* win(election, other)).toBeGreaterThan(old)
      })
    )

    law("a pod cannot resign another's term or an expired one", (election) =>
      Effect.gen(function* () {
        const { leadership, one, other } = election
        const old = yield* win(election, one)
        yield* leadership.resign(other, old)
        yield* leadership.assertTerm(old)
        yield* advance("15 seconds")
        const term = yield* win(election, one)
        yield* leadership.resign(one, old)
        yield* leadership.assertTerm(term)
      })
    )

    law("one of many concurrent candidates leads", (election) =>
      Effect.gen(function* () {
        const { leadership } = election
        const ids = yield* makeGenerator
        const pods = Array.from({ length: 20 }, () => ids.pod(1))
        const terms = yield* Effect.forEach(pods, (pod) => leadership.campaign(pod, lease), {
          concurrency: "unbounded"
        })
        expect(terms.filter(Option.isSome)).toHaveLength(1)
      })
    )
  })

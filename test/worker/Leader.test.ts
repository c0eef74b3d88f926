import { expect, it } from "@effect/vitest"
import { Context, Duration, Effect, Exit, Layer, Option, Scope, TestClock } from "effect"
import * as ClusterMemory from "../../src/cluster/ClusterMemory.js"
import { Leadership } from "../../src/cluster/Leadership.js"
import { Boot } from "../../src/core/Boot.js"
import { Hints } from "../../src/database/Hints.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import * as PodSettings from "../../src/testing/simulation/PodSettings.js"
import { Leader } from "../../src/worker/loops/Leader.js"
import { Pod } from "../../src/worker/Pod.js"

const services = Layer.mergeAll(
  ClusterMemory.layer,
  Hints.layerLocal,
  Metrics.layer,
  Layer.succeedContext(PodSettings.context)
)

it.effect("a pod that stops while its campaign is unanswered resigns from the term that it may have begun", () =>
  Effect.gen(function* () {
    const leadership = yield* Leadership
    const pod = yield* Effect.provideServiceEffect(Pod.make, Boot, Boot.make)
    let answers = true
    const unanswered: typeof Leadership.Service = {
      ...leadership,
      campaign: (id, lease) =>
        Effect.flatMap(leadership.campaign(id, lease), (term) => (answers ? Effect.succeed(term) : Effect.never))
    }
    const scope = yield* Scope.make()
    const leader = yield* Leader.make.pipe(
      Scope.extend(scope),
      Effect.provide(Context.make(Leadership, unanswered).pipe(Context.add(Pod, pod)))
    )
    const first = yield* leader.term
    expect(Option.isSome(first)).toBe(true)
    // The term ends without the pod noticing, as while it is frozen. Its next campaign begins another one.
    yield* leadership.resign(pod.id, Option.getOrUndefined(first))
    answers = false
    yield* TestClock.adjust(Duration.times(PodSettings.lease, 1 / 3))
    expect(Option.map(yield* leadership.leader, ({ pod, term }) => [pod, term > Option.getOrThrow(first)])).toEqual(
      Option.some([pod.id, true])
    )
    yield* Scope.close(scope, Exit.void)
    expect(yield* leadership.leader).toEqual(Option.none())
  }).pipe(Effect.provide(services))
)

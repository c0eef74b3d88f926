import { Clock, Context, Effect, Layer } from "effect"
import { Leadership } from "../cluster/Leadership.js"
import { Pods } from "../cluster/Pods.js"
import { ClusterConfig } from "../crew/ClusterConfig.js"
import { unservedAmong } from "../crew/loops/Rebalancer.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import { Queue } from "../queue/Queue.js"
import { type PodView, podView } from "./admin/PodsContract.js"

/** A warning for operators. */
export interface Warning {
  /** A stable code for programs. */
  readonly code: string
  readonly message: string
}

/** The live pods, and warnings about queues that no pod serves. */
export class ClusterOverview extends Context.Tag("nightshift/http/ClusterOverview")<
  ClusterOverview,
  {
    readonly look: Effect.Effect<
      { readonly pods: ReadonlyArray<PodView>; readonly warnings: ReadonlyArray<Warning> },
      DatabaseError
    >
  }
>() {
  static readonly layer: Layer.Layer<ClusterOverview, never, Pods | Leadership | Queue | ClusterConfig> = Layer.effect(
    ClusterOverview,
    Effect.gen(function* () {
      const pods = yield* Pods
      const leadership = yield* Leadership
      const queue = yield* Queue
      const { lease } = yield* ClusterConfig
      return {
        look: Effect.gen(function* () {
          const live = yield* pods.live(lease)
          const leader = yield* leadership.leader
          const unserved = yield* Effect.provideService(unservedAmong(live), Queue, queue)
          const now = yield* Clock.currentTimeMillis
          return {
            pods: live.map((pod) => podView(pod, leader, now)),
            warnings: unserved.map((name) => ({
              code: "unserved_queue",
              message: `Queue ${name} has due jobs, but no live pod serves it.`
            }))
          }
        })
      }
    })
  )
}

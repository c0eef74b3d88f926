import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Clock, Effect, type Layer } from "effect"
import { Leadership } from "../../cluster/Leadership.js"
import { Pods } from "../../cluster/Pods.js"
import { ClusterConfig } from "../../crew/ClusterConfig.js"
import { unservedAmong } from "../../crew/loops/Rebalancer.js"
import type { Queue } from "../../queue/Queue.js"
import { Api } from "../Api.js"
import * as Problem from "../Problem.js"
import { podView } from "./PodsContract.js"

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "pods">,
  never,
  Pods | Leadership | Queue | ClusterConfig
> = HttpApiBuilder.group(Api, "pods", (handlers) =>
  Effect.gen(function* () {
    const pods = yield* Pods
    const leadership = yield* Leadership
    const { lease } = yield* ClusterConfig
    return handlers.handle("list", () =>
      Effect.gen(function* () {
        const live = yield* pods.live(lease)
        const leader = yield* leadership.leader
        const unservedQueues = yield* unservedAmong(live)
        const now = yield* Clock.currentTimeMillis
        return { pods: live.map((pod) => podView(pod, leader, now)), unservedQueues }
      }).pipe(Problem.catchErrors)
    )
  })
)

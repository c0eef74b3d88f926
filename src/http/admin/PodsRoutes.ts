import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Clock, Effect, type Layer } from "effect"
import { Leadership } from "../../cluster/Leadership.js"
import { Pods } from "../../cluster/Pods.js"
import { ClusterConfig } from "../../crew/ClusterConfig.js"
import * as Unserved from "../../crew/loops/Unserved.js"
import type { Queue } from "../../queue/Queue.js"
import { Api } from "../Api.js"
import * as Problem from "../Problem.js"
import * as PodView from "./PodView.js"

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
        const unservedQueues = yield* Unserved.among(live)
        const now = yield* Clock.currentTimeMillis
        return { pods: live.map((pod) => PodView.of(pod, leader, now)), unservedQueues }
      }).pipe(Problem.answered)
    )
  })
)

import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Clock, Effect, type Layer, Option, Schema } from "effect"
import { type Leader, Leadership } from "../../cluster/Leadership.js"
import { isRemote, Pods, type StoredPod } from "../../cluster/Pods.js"
import { PodId } from "../../core/Ids.js"
import type { Queue } from "../../queue/Queue.js"
import { ClusterConfig } from "../../worker/ClusterConfig.js"
import { unservedAmong } from "../../worker/loops/Rebalancer.js"
import { about, apiOf } from "../Contract.js"
import * as Instant from "../Instant.js"
import * as ResponseFields from "../ResponseFields.js"

/** A pod in API responses. */
export const PodView = Schema.Struct({
  id: PodId,
  label: Schema.NullOr(Schema.String),
  version: Schema.String,
  queues: Schema.Array(Schema.String),
  kinds: Schema.Array(Schema.String),
  slots: Schema.Array(
    Schema.Struct({ queue: Schema.String, wanted: Schema.Int, have: Schema.Int, busy: Schema.Int })
  ).annotations({ description: "Per queue: wanted, existing and busy slots." }),
  runningJobs: Schema.Int,
  host: Schema.Struct({ name: Schema.String, pid: Schema.Int, node: Schema.String }),
  startedAt: Instant.Moment,
  heartbeatAgeSeconds: Schema.Number,
  clockOffsetSeconds: Schema.NullOr(Schema.Number).annotations({
    description: "How far the database's clock is ahead of the clock of the process; null until it is measured."
  }),
  server: Schema.NullOr(Schema.String).annotations({
    description: "The PostgreSQL server that stored the last heartbeat: its address and start time."
  }),
  draining: Schema.Boolean.annotations({ description: "The process is shutting down and claims no new jobs." }),
  leader: Schema.Boolean,
  remote: Schema.Boolean.annotations({
    description: "A remote worker, which claims jobs over HTTP. `host.node` is its runtime."
  })
}).annotations({ identifier: "Pod" })
export type PodView = typeof PodView.Type

const fieldsOf = ResponseFields.of(PodView)

export const podView = (pod: StoredPod, leader: Option.Option<Leader>, now: number): PodView => ({
  ...fieldsOf(pod),
  runningJobs: pod.slots.reduce((sum, { busy }) => sum + busy, 0),
  heartbeatAgeSeconds: Math.max(0, now - pod.heartbeatAt) / 1000,
  // Rounded, so that live streams do not report every change.
  clockOffsetSeconds: pod.clockOffset === undefined ? null : Math.round(pod.clockOffset * 10) / 10,
  leader: Option.exists(leader, (held) => held.pod === pod.id),
  remote: isRemote(pod.id)
})

const Answer = Schema.Struct({
  pods: Schema.Array(PodView),
  unservedQueues: Schema.Array(Schema.String).annotations({
    description: "Queues with due jobs that no live process serves."
  })
})

export const group = HttpApiGroup.make("pods").add(
  HttpApiEndpoint.get("list", "/pods")
    .addSuccess(Answer)
    .annotateContext(about("List live processes by id, and queues that no process serves."))
)

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "pods">,
  never,
  Pods | Leadership | Queue | ClusterConfig
> = HttpApiBuilder.group(apiOf(group), "pods", (handlers) =>
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
      })
    )
  })
)

import { hostname } from "node:os"
import { Clock, Context, Effect, Layer, Option } from "effect"
import * as PodLabel from "../cluster/PodLabel.js"
import type { PodFacts } from "../cluster/Pods.js"
import { makeGenerator, type PodId } from "../core/Ids.js"
import * as Package from "../database/Package.js"
import * as MetricSpec from "../telemetry/MetricSpec.js"
import { Metrics } from "../telemetry/Metrics.js"
import { ClusterConfig } from "./ClusterConfig.js"

/** The id and start time of this process, whether or not it runs jobs. */
export class Boot extends Context.Tag("nightshift/crew/Boot")<
  Boot,
  {
    readonly id: PodId
    /** Epoch milliseconds. */
    readonly startedAt: number
  }
>() {
  static readonly layer: Layer.Layer<Boot> = Layer.effect(
    Boot,
    Effect.gen(function* () {
      const ids = yield* makeGenerator
      const startedAt = yield* Clock.currentTimeMillis
      return { id: ids.pod(startedAt), startedAt }
    })
  )
}

const info = MetricSpec.gauge("pod_info", "Always 1; the labels identify this process.", ["label", "version"])

export class Pod extends Context.Tag("nightshift/crew/Pod")<Pod, Omit<PodFacts, "queues" | "kinds">>() {
  static readonly layer: Layer.Layer<Pod, never, ClusterConfig | Metrics> = Layer.effect(
    Pod,
    Effect.gen(function* () {
      const { workerId, workerPrefix, workerVersion } = yield* ClusterConfig
      const { id, startedAt } = yield* Boot
      const label = PodLabel.of({ prefix: workerPrefix, version: workerVersion, id: workerId }, id)
      const version = Option.getOrElse(workerVersion, () => Package.version.text)
      const metrics = yield* Metrics
      metrics.series(info, { label: label ?? id, version }).set(1)
      return { id, label, version, host: { name: hostname(), pid: process.pid, node: process.version }, startedAt }
    })
  ).pipe(Layer.provide(Boot.layer))
}

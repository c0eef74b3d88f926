import { hostname } from "node:os"
import { Clock, Context, Effect, Layer, Option } from "effect"
import * as PodLabel from "../cluster/PodLabel.js"
import type { PodFacts } from "../cluster/Pods.js"
import { makeGenerator } from "../core/Ids.js"
import * as Package from "../database/Package.js"
import * as MetricSpec from "../telemetry/MetricSpec.js"
import { Metrics } from "../telemetry/Metrics.js"
import { ClusterConfig } from "./ClusterConfig.js"

const info = MetricSpec.gauge("pod_info", "Always 1; says who this process is.", ["label", "version"])

/** This boot of this process. */
export class Pod extends Context.Tag("nightshift/crew/Pod")<Pod, Omit<PodFacts, "queues" | "kinds">>() {
  static readonly layer: Layer.Layer<Pod, never, ClusterConfig | Metrics> = Layer.effect(
    Pod,
    Effect.gen(function* () {
      const { workerId, workerPrefix, workerVersion } = yield* ClusterConfig
      const ids = yield* makeGenerator
      const startedAt = yield* Clock.currentTimeMillis
      const id = ids.pod(startedAt)
      const label = PodLabel.of({ prefix: workerPrefix, version: workerVersion, id: workerId }, id)
      const version = Option.getOrElse(workerVersion, () => Package.version.text)
      const metrics = yield* Metrics
      metrics.series(info, { label: label ?? id, version }).set(1)
      return { id, label, version, host: { name: hostname(), pid: process.pid, node: process.version }, startedAt }
    })
  )
}

import { createHash } from "node:crypto"
import { hostname } from "node:os"
import { Context, Effect, Layer, Option } from "effect"
import type { PodFacts } from "../cluster/Pods.js"
import { Boot } from "../core/Boot.js"
import type { PodId } from "../core/Ids.js"
import { Database } from "../database/Database.js"
import * as Package from "../database/Package.js"
import * as MetricSpec from "../telemetry/MetricSpec.js"
import { Metrics } from "../telemetry/Metrics.js"
import { ClusterConfig } from "./ClusterConfig.js"

/** Parts of the label that operators see for this process. */
export interface LabelParts {
  readonly prefix: Option.Option<string>
  readonly version: Option.Option<string>
  readonly id: Option.Option<string>
}

/**
 * Four hex digits of a hash. The first digits of the pod id are its start time, so pods started together would share
 * them.
 */
const shortId = (pod: PodId): string => createHash("sha256").update(pod).digest("hex").slice(0, 4)

/** Returns `{prefix}-worker-{version}-{id}`; the version is omitted if unset. Returns undefined without a prefix. */
export const podLabel = ({ id, prefix, version }: LabelParts, pod: PodId): string | undefined =>
  Option.isNone(prefix)
    ? undefined
    : [prefix.value, "worker", ...Option.toArray(version), Option.getOrElse(id, () => shortId(pod))].join("-")

const info = MetricSpec.gauge("pod_info", "Always 1; the labels identify this process.", ["label", "version"])

export class Pod extends Context.Tag("nightshift/worker/Pod")<Pod, Omit<PodFacts, "queues" | "kinds" | "releases">>() {
  static readonly make: Effect.Effect<typeof Pod.Service, never, Boot | ClusterConfig | Metrics> = Effect.gen(
    function* () {
      const { workerId, workerPrefix, workerVersion } = yield* ClusterConfig
      const { id, startedAt } = yield* Boot
      const label = podLabel({ prefix: workerPrefix, version: workerVersion, id: workerId }, id)
      const version = Option.getOrElse(workerVersion, () => Package.version.text)
      const metrics = yield* Metrics
      metrics.series(info, { label: label ?? id, version }).set(1)
      // Absent in memory.
      const database = yield* Effect.serviceOption(Database)
      const connections = Option.isNone(database) ? undefined : yield* database.value.maxConnections
      const host = { name: hostname(), pid: process.pid, node: process.version }
      return { id, label, version, host, connections, startedAt }
    }
  )

  static readonly layer: Layer.Layer<Pod, never, ClusterConfig | Metrics> = Layer.effect(Pod, Pod.make).pipe(
    Layer.provide(Boot.layer)
  )
}

import { Context, Layer } from "effect"
import type { PodId } from "./Ids.js"

/** The pods that have a row, in memory. The cluster writes it; the queue keeps the jobs of these pods when it recovers others. */
export class PodIds extends Context.Tag("nightshift/core/PodIdsMemory")<PodIds, Set<PodId>>() {
  static readonly layer: Layer.Layer<PodIds> = Layer.sync(PodIds, () => new Set())
}

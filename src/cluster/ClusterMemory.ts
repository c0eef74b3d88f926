import { Layer } from "effect"
import type { Leadership } from "./Leadership.js"
import * as LeadershipMemory from "./LeadershipMemory.js"
import type { Pods } from "./Pods.js"
import * as PodsMemory from "./PodsMemory.js"
import type { Shares } from "./Shares.js"
import * as SharesMemory from "./SharesMemory.js"
import { ShareTable } from "./ShareTableMemory.js"

/** In-memory cluster services. Several pods in one process can form a cluster. */
export const layer: Layer.Layer<Pods | Shares | Leadership> = Layer.merge(PodsMemory.layer, SharesMemory.layer).pipe(
  Layer.provide(ShareTable.layer),
  Layer.provideMerge(LeadershipMemory.layer)
)

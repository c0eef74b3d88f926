import { Layer } from "effect"
import type { Database } from "../database/Database.js"
import type { Leadership } from "./Leadership.js"
import * as LeadershipPg from "./LeadershipPg.js"
import type { Pods } from "./Pods.js"
import * as PodsPg from "./PodsPg.js"
import type { Shares } from "./Shares.js"
import * as SharesPg from "./SharesPg.js"

export const layer: Layer.Layer<Pods | Shares | Leadership, never, Database> = Layer.mergeAll(
  PodsPg.layer,
  SharesPg.layer,
  LeadershipPg.layer
)

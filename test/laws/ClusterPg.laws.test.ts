import { Layer } from "effect"
import * as ClusterPg from "../../src/cluster/ClusterPg.js"
import * as Listener from "../../src/database/Listener.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { clusterLaws } from "./ClusterLaws.js"

const layer = ClusterPg.layer.pipe(
  Layer.provide(Listener.layer),
  Layer.provide(TestDatabase.layer),
  Layer.provideMerge(SteppableClock.layer)
)

clusterLaws("the cluster on PostgreSQL", layer, { clock: "live", advance: SteppableClock.advance })

import { TestClock } from "effect"
import * as ClusterMemory from "../../src/cluster/ClusterMemory.js"
import { clusterLaws } from "./ClusterLaws.js"

clusterLaws("the cluster in memory", ClusterMemory.layer, { clock: "test", advance: TestClock.adjust })

import { TestClock } from "effect"
import * as ClusterMemory from "../../src/cluster/ClusterMemory.js"
import { leadershipLaws } from "./LeadershipLaws.js"

leadershipLaws("leadership in memory", ClusterMemory.leadership, { clock: "test", advance: TestClock.adjust })

import { TestClock } from "effect"
import * as LeadershipMemory from "../../src/cluster/LeadershipMemory.js"
import { leadershipLaws } from "./LeadershipLaws.js"

leadershipLaws("leadership in memory", LeadershipMemory.layer, { clock: "test", advance: TestClock.adjust })

import { Layer } from "effect"
import * as LeadershipPg from "../../src/cluster/LeadershipPg.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { leadershipLaws } from "./LeadershipLaws.js"

const layer = LeadershipPg.layer.pipe(Layer.provide(TestDatabase.layer), Layer.provideMerge(SteppableClock.layer))

leadershipLaws("leadership on PostgreSQL", layer, { clock: "live", advance: SteppableClock.advance })

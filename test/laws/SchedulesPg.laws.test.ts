import { Layer } from "effect"
import { Hints } from "../../src/database/Hints.js"
import * as Listener from "../../src/database/Listener.js"
import { Transactions } from "../../src/queue/Transactions.js"
import * as SchedulesPg from "../../src/schedule/SchedulesPg.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { schedulesLaws } from "./SchedulesLaws.js"

const layer = Layer.merge(SchedulesPg.layer, Transactions.layer).pipe(
  Layer.provide(Hints.layer),
  Layer.provide(Listener.layer),
  Layer.provide(TestDatabase.layer),
  Layer.provideMerge(SteppableClock.layer)
)

schedulesLaws("schedules on PostgreSQL", layer, { clock: "live", advance: SteppableClock.advance })

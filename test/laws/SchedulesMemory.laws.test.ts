import { Layer, TestClock } from "effect"
import { Hints } from "../../src/database/Hints.js"
import { Transactions } from "../../src/queue/Transactions.js"
import * as SchedulesMemory from "../../src/schedule/SchedulesMemory.js"
import { schedulesLaws } from "./SchedulesLaws.js"

const layer = Layer.merge(SchedulesMemory.layer, Transactions.layerMemory).pipe(Layer.provide(Hints.layerLocal))

schedulesLaws("schedules in memory", layer, { clock: "test", advance: TestClock.adjust })

import { Layer, TestClock } from "effect"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import { Transactions } from "../../src/queue/Transactions.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { queueLaws } from "./QueueLaws.js"
import { tallyLaws } from "./TallyLaws.js"

const layer = Layer.merge(QueueMemory.layer, Transactions.layerMemory).pipe(Layer.provide(Wakeups.layer))

queueLaws("the queue in memory", layer, {
  clock: "test",
  advance: TestClock.adjust
})

tallyLaws("counting in memory", layer, {
  clock: "test",
  advance: TestClock.adjust
})

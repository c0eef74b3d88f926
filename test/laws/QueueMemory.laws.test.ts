import { Layer, TestClock } from "effect"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { queueLaws } from "./QueueLaws.js"
import { tallyLaws } from "./TallyLaws.js"

queueLaws("the queue in memory", Layer.provide(QueueMemory.layer, Wakeups.layer), {
  clock: "test",
  advance: TestClock.adjust
})

tallyLaws("counting in memory", Layer.provide(QueueMemory.layer, Wakeups.layer), {
  clock: "test",
  advance: TestClock.adjust
})

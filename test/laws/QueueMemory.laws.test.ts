import { Clock, Duration, Effect, Layer, TestClock } from "effect"
import * as ClusterMemory from "../../src/cluster/ClusterMemory.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import { Transactions } from "../../src/queue/Transactions.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { queueLaws } from "./QueueLaws.js"
import { tallyLaws } from "./TallyLaws.js"

const layer = Layer.merge(ClusterMemory.layer, Transactions.layerMemory).pipe(
  Layer.provideMerge(QueueMemory.layer),
  Layer.provide(Wakeups.layer)
)

const setBack = (by: Duration.DurationInput) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => TestClock.setTime(now - Duration.toMillis(by)))

const clocks = { clock: "test", advance: TestClock.adjust, setBack } as const

queueLaws("the queue in memory", layer, clocks)

tallyLaws("counting in memory", layer, clocks)

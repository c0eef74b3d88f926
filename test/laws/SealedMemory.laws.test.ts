import { Clock, Duration, Effect, Layer, TestClock } from "effect"
import * as ClusterMemory from "../../src/cluster/ClusterMemory.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import { Transactions } from "../../src/queue/Transactions.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import * as Seal from "../../src/seal/Seal.js"
import { queueLaws } from "./QueueLaws.js"
import { plainChapters, plainCodec, plainLaws, sealedChapters, sealingCodec } from "./SealedChapters.js"

const layer = Layer.merge(ClusterMemory.layer, Transactions.layerMemory).pipe(
  Layer.provideMerge(QueueMemory.layer),
  Layer.provide(Wakeups.layer)
)

const setBack = (by: Duration.DurationInput) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => TestClock.setTime(now - Duration.toMillis(by)))

const clocks = { clock: "test", advance: TestClock.adjust, setBack } as const

queueLaws(
  "the queue in memory with sealed values",
  Layer.map(layer, Seal.over(sealingCodec)),
  clocks,
  sealedChapters,
  plainLaws
)

queueLaws(
  "the queue in memory with a codec and plain events",
  Layer.map(layer, Seal.over(plainCodec)),
  clocks,
  plainChapters
)

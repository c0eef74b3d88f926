import { Layer } from "effect"
import * as PodsPg from "../../src/cluster/PodsPg.js"
import * as Listener from "../../src/database/Listener.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { Transactions } from "../../src/queue/Transactions.js"
import * as Seal from "../../src/seal/Seal.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { queueLaws } from "./QueueLaws.js"
import { plainChapters, plainCodec, plainLaws, sealedChapters, sealingCodec } from "./SealedChapters.js"

const layer = Layer.mergeAll(QueuePg.layer, Transactions.layer, PodsPg.layer).pipe(
  Layer.provide(Listener.layerPolling),
  Layer.provide(TestDatabase.layer),
  Layer.provideMerge(SteppableClock.layer)
)

const clocks = { clock: "live", advance: SteppableClock.advance, setBack: SteppableClock.setBack } as const

queueLaws(
  "the queue on PostgreSQL with sealed values",
  Layer.map(layer, Seal.over(sealingCodec)),
  clocks,
  sealedChapters,
  plainLaws
)

queueLaws(
  "the queue on PostgreSQL with a codec and plain events",
  Layer.map(layer, Seal.over(plainCodec)),
  clocks,
  plainChapters
)

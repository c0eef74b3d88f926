import { Layer } from "effect"
import * as TokensPg from "../../src/access/TokensPg.js"
import { Transactions } from "../../src/queue/Transactions.js"
import * as StoragePg from "../../src/uploads/StoragePg.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { config, uploadLaws } from "./UploadLaws.js"

const layer = Layer.mergeAll(StoragePg.layer, TokensPg.layer, Transactions.layer).pipe(
  Layer.provide(config),
  Layer.provide(TestDatabase.layer),
  Layer.provideMerge(SteppableClock.layer)
)

uploadLaws("uploads on PostgreSQL", layer, { clock: "live", advance: SteppableClock.advance })

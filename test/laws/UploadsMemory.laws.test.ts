import { Layer, TestClock } from "effect"
import { Transactions } from "../../src/queue/Transactions.js"
import * as StorageMemory from "../../src/uploads/StorageMemory.js"
import * as AccessMemory from "../support/AccessMemory.js"
import { config, uploadLaws } from "./UploadLaws.js"

const layer = Layer.mergeAll(Layer.provide(StorageMemory.layer, config), AccessMemory.tokens, Transactions.layerMemory)

uploadLaws("uploads in memory", layer, { clock: "test", advance: TestClock.adjust })

import { Layer, TestClock } from "effect"
import * as TokensMemory from "../../src/access/TokensMemory.js"
import * as StorageMemory from "../../src/uploads/StorageMemory.js"
import { config, uploadLaws } from "./UploadLaws.js"

uploadLaws("uploads in memory", Layer.merge(Layer.provide(StorageMemory.layer, config), TokensMemory.layer), {
  clock: "test",
  advance: TestClock.adjust
})

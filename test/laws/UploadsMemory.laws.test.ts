import { Layer, TestClock } from "effect"
import * as AccessMemory from "../../src/access/AccessMemory.js"
import * as StorageMemory from "../../src/uploads/StorageMemory.js"
import { config, uploadLaws } from "./UploadLaws.js"

uploadLaws("uploads in memory", Layer.merge(Layer.provide(StorageMemory.layer, config), AccessMemory.tokens), {
  clock: "test",
  advance: TestClock.adjust
})

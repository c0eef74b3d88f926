import { Layer, TestClock } from "effect"
import * as StorageMemory from "../../src/uploads/StorageMemory.js"
import * as AccessMemory from "../support/AccessMemory.js"
import { config, uploadLaws } from "./UploadLaws.js"

uploadLaws("uploads in memory", Layer.merge(Layer.provide(StorageMemory.layer, config), AccessMemory.tokens), {
  clock: "test",
  advance: TestClock.adjust
})

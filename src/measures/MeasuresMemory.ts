import { Layer } from "effect"
import * as DatabaseHealthMemory from "./DatabaseHealthMemory.js"
import type { Measures } from "./Measures.js"
import * as MinuteBucketsMemory from "./MinuteBucketsMemory.js"
import * as PodSamplesMemory from "./PodSamplesMemory.js"

export const layer: Layer.Layer<Measures> = Layer.mergeAll(
  MinuteBucketsMemory.layer,
  PodSamplesMemory.layer,
  DatabaseHealthMemory.layer
)

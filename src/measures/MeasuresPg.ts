import { Layer } from "effect"
import type { Database } from "../database/Database.js"
import * as DatabaseHealthPg from "./DatabaseHealthPg.js"
import type { Measures } from "./Measures.js"
import * as MinuteBucketsPg from "./MinuteBucketsPg.js"
import * as PodSamplesPg from "./PodSamplesPg.js"
import * as QueueWaitsPg from "./QueueWaitsPg.js"

export const layer: Layer.Layer<Measures, never, Database> = Layer.mergeAll(
  MinuteBucketsPg.layer,
  QueueWaitsPg.layer,
  PodSamplesPg.layer,
  DatabaseHealthPg.layer
)

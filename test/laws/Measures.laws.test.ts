import { Layer, TestClock } from "effect"
import * as DatabaseHealthMemory from "../../src/measures/DatabaseHealthMemory.js"
import * as DatabaseHealthPg from "../../src/measures/DatabaseHealthPg.js"
import * as MinuteBucketsMemory from "../../src/measures/MinuteBucketsMemory.js"
import * as MinuteBucketsPg from "../../src/measures/MinuteBucketsPg.js"
import * as PodSamplesMemory from "../../src/measures/PodSamplesMemory.js"
import * as PodSamplesPg from "../../src/measures/PodSamplesPg.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { minuteBucketsLaws } from "./MinuteBucketsLaws.js"
import { samplesLaws } from "./SamplesLaws.js"

const memory = Layer.mergeAll(MinuteBucketsMemory.layer, PodSamplesMemory.layer, DatabaseHealthMemory.layer)
const postgres = Layer.mergeAll(MinuteBucketsPg.layer, PodSamplesPg.layer, DatabaseHealthPg.layer).pipe(
  Layer.provide(TestDatabase.layer),
  Layer.provideMerge(SteppableClock.layer)
)

minuteBucketsLaws("minute buckets in memory", memory, { clock: "test", advance: TestClock.adjust })
minuteBucketsLaws("minute buckets on PostgreSQL", postgres, { clock: "live", advance: SteppableClock.advance })
samplesLaws("samples in memory", memory, { clock: "test", advance: TestClock.adjust })
samplesLaws("samples on PostgreSQL", postgres, { clock: "live", advance: SteppableClock.advance })

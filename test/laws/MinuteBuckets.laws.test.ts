import { Layer, TestClock } from "effect"
import * as MinuteBucketsMemory from "../../src/measures/MinuteBucketsMemory.js"
import * as MinuteBucketsPg from "../../src/measures/MinuteBucketsPg.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { minuteBucketsLaws } from "./MinuteBucketsLaws.js"

minuteBucketsLaws("minute buckets in memory", MinuteBucketsMemory.layer, { clock: "test", advance: TestClock.adjust })

minuteBucketsLaws(
  "minute buckets on PostgreSQL",
  MinuteBucketsPg.layer.pipe(Layer.provide(TestDatabase.layer), Layer.provideMerge(SteppableClock.layer)),
  { clock: "live", advance: SteppableClock.advance }
)

import { Layer, TestClock } from "effect"
import * as MeasuresPg from "../../src/measures/MeasuresPg.js"
import * as MinuteBucketsMemory from "../../src/measures/MinuteBucketsMemory.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { minuteBucketsLaws } from "./MinuteBucketsLaws.js"
import { queueWaitsLaws } from "./QueueWaitsLaws.js"
import { samplesLaws } from "./SamplesLaws.js"

const postgres = MeasuresPg.layer.pipe(Layer.provide(TestDatabase.layer), Layer.provideMerge(SteppableClock.layer))

minuteBucketsLaws("minute buckets in memory", MinuteBucketsMemory.layer, { clock: "test", advance: TestClock.adjust })
minuteBucketsLaws("minute buckets on PostgreSQL", postgres, { clock: "live", advance: SteppableClock.advance })
queueWaitsLaws("waits on PostgreSQL", postgres, { clock: "live", advance: SteppableClock.advance })
samplesLaws("samples on PostgreSQL", postgres, { clock: "live", advance: SteppableClock.advance })

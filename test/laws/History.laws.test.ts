import { Layer, TestClock } from "effect"
import * as HistoryPg from "../../src/history/HistoryPg.js"
import * as MinuteBucketsMemory from "../../src/history/MinuteBucketsMemory.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { minuteBucketsLaws } from "./MinuteBucketsLaws.js"
import { queueWaitsLaws } from "./QueueWaitsLaws.js"
import { samplesLaws } from "./SamplesLaws.js"

const postgres = HistoryPg.layer.pipe(Layer.provide(TestDatabase.layer), Layer.provideMerge(SteppableClock.layer))

minuteBucketsLaws("minute buckets in memory", MinuteBucketsMemory.layer, { clock: "test", advance: TestClock.adjust })
minuteBucketsLaws("minute buckets on PostgreSQL", postgres, { clock: "live", advance: SteppableClock.advance })
queueWaitsLaws("waits on PostgreSQL", postgres, { clock: "live", advance: SteppableClock.advance })
samplesLaws("samples on PostgreSQL", postgres, { clock: "live", advance: SteppableClock.advance })

import type { DatabaseHealth } from "./DatabaseHealth.js"
import type { MinuteBuckets } from "./MinuteBuckets.js"
import type { PodSamples } from "./PodSamples.js"
import type { QueueWaits } from "./QueueWaits.js"

/** The services that store what charts show: counts, waits, and samples of processes and the database. */
export type HistoryPorts = MinuteBuckets | QueueWaits | PodSamples | DatabaseHealth

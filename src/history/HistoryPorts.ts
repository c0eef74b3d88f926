import type { DatabaseHealth } from "./DatabaseHealth.js"
import type { MinuteBuckets } from "./MinuteBuckets.js"
import type { PodSamples } from "./PodSamples.js"
import type { QueueWaits } from "./QueueWaits.js"

export type HistoryPorts = MinuteBuckets | QueueWaits | PodSamples | DatabaseHealth

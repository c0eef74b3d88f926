import type { DatabaseHealth } from "./DatabaseHealth.js"
import type { MinuteBuckets } from "./MinuteBuckets.js"
import type { PodSamples } from "./PodSamples.js"

export type Measures = MinuteBuckets | PodSamples | DatabaseHealth

import { Effect, type Scope } from "effect"
import { Queues } from "../../queue/settings/QueueSettings.js"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"

const paused = MetricSpec.gauge("queue_paused", "1 while an operator has paused the queue.", ["queue"])
const throttled = MetricSpec.gauge("queue_throttled", "1 while the queue is cooling down.", ["queue"])
const maxWorkers = MetricSpec.gauge("queue_max_workers", "Configured slots of the queue in the whole cluster.", [
  "queue"
])

/** Exports the settings of these queues when the metrics are scraped. */
export const watch = (queues: ReadonlyArray<string>): Effect.Effect<void, never, Queues | Metrics | Scope.Scope> =>
  Effect.gen(function* () {
    const { known } = yield* Queues
    const metrics = yield* Metrics
    yield* metrics.onRead(
      Effect.sync(() => {
        for (const queue of queues) {
          const settings = known(queue)
          if (settings === undefined) continue
          metrics.series(paused, { queue }).set(settings.paused ? 1 : 0)
          metrics.series(throttled, { queue }).set(settings.throttledUntil === undefined ? 0 : 1)
          metrics.series(maxWorkers, { queue }).set(settings.maxWorkers)
        }
      })
    )
  })

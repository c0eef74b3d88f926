import { Context, Duration, Option } from "effect"
import { ClusterConfig } from "../../crew/ClusterConfig.js"
import { CrewConfig } from "../../crew/CrewConfig.js"
import { JanitorConfig } from "../../crew/loops/Janitor.js"
import { SchedulerConfig } from "../../crew/loops/SchedulerConfig.js"
import { SweeperConfig } from "../../crew/loops/Sweeper.js"
import { MetricsConfig } from "../../crew/MetricsConfig.js"
import { EventLoop } from "../../telemetry/EventLoop.js"

/** How the database's own side counts, and each pod. */
export const metrics: typeof MetricsConfig.Service = {
  flush: Duration.seconds(2),
  retention: Duration.days(30),
  oldTransaction: Duration.minutes(5)
}

/** How long a leader stays one without renewing. */
export const lease = Duration.seconds(10)

/** The most that the clock of a pod may be off: with more, it would not have started. */
export const mostSkew = Duration.toMillis(lease) / 20

/**
 * In the proportions of production, and quicker: a minute of a simulation holds what an hour of a real cluster does. A context
 * and no layer: thousands of pods start in a test, and each layer would cost each of them.
 */
export const context = Context.empty().pipe(
  Context.add(MetricsConfig, metrics),
  Context.add(CrewConfig, {
    queues: [],
    slots: 4,
    poll: Duration.seconds(3),
    heartbeat: Duration.seconds(3),
    grace: Duration.seconds(5)
  }),
  Context.add(ClusterConfig, {
    workerPrefix: Option.none(),
    workerVersion: Option.none(),
    workerId: Option.none(),
    podHeartbeat: Duration.seconds(3),
    staleAfter: Duration.seconds(9),
    reaperInterval: Duration.seconds(3),
    rebalanceInterval: Duration.seconds(6),
    cleanupInterval: Duration.minutes(5),
    lease
  }),
  Context.add(SchedulerConfig, { poll: Duration.seconds(5), onTime: Duration.seconds(12) }),
  Context.add(JanitorConfig, {
    doneRetention: Duration.hours(168),
    stuckTimeout: Duration.minutes(5),
    interval: Duration.minutes(2)
  }),
  Context.add(SweeperConfig, { ackRetention: Duration.hours(1), interval: Duration.hours(1) }),
  Context.add(EventLoop, EventLoop.still)
)

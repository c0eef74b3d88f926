import { Context, Duration, Effect, Option } from "effect"
import { AuthSessions } from "../../gateway/auth/AuthSessions.js"
import * as Allowance from "../../gateway/config/Allowance.js"
import { GatewayConfig } from "../../gateway/config/GatewayConfig.js"
import { MetricsConfig } from "../../history/MetricsConfig.js"
import { SchedulerConfig } from "../../schedule/SchedulerConfig.js"
import { EventLoop } from "../../telemetry/EventLoop.js"
import { SweeperConfig } from "../../uploads/Sweeper.js"
import { ClusterConfig } from "../../worker/ClusterConfig.js"
import { WorkerConfig } from "../../worker/WorkerConfig.js"

/** Metrics settings of the pods and of the database side. */
export const metrics: typeof MetricsConfig.Service = {
  flush: Duration.seconds(4),
  retention: Duration.days(30),
  oldTransaction: Duration.minutes(5)
}

/** Settings of the webhook intake. Sources need neither users nor sign-ins. */
export const gateway = Context.make(GatewayConfig, {
  file: Option.none(),
  authSecret: Option.none(),
  sessionTtl: Duration.days(1),
  allowedUsers: undefined,
  httpAllow: Allowance.make([]),
  telegramApi: new URL("http://127.0.0.1")
}).pipe(
  Context.add(AuthSessions, {
    open: () => Effect.void,
    find: () => Effect.succeedNone,
    close: () => Effect.succeed(false),
    guess: () => Effect.dieMessage("the simulation has no bots"),
    sweep: Effect.succeed({ sessions: 0, guesses: 0 })
  })
)

/** Leader lease. */
export const lease = Duration.seconds(10)

/** Maximum clock skew of a pod in milliseconds. A pod with more would refuse to start. */
export const maxClockSkew = Duration.toMillis(lease) / 20

/** Speed of a slow clock. */
export const slowPace = 0.9

/**
 * Production settings scaled down, so that a simulated minute covers about an hour of a real cluster. This is a context
 * instead of a layer because a test starts thousands of pods, and building a layer for each would be slow.
 */
export const context = Context.empty().pipe(
  Context.add(MetricsConfig, metrics),
  Context.add(WorkerConfig, {
    queues: [],
    slots: 4,
    poll: Duration.seconds(4),
    heartbeat: Duration.seconds(3),
    grace: Duration.seconds(5)
  }),
  Context.add(ClusterConfig, {
    workerPrefix: Option.none(),
    workerVersion: Option.none(),
    workerId: Option.none(),
    podHeartbeat: Duration.seconds(3),
    staleAfter: Duration.seconds(9),
    reaperInterval: Duration.seconds(5),
    rebalanceInterval: Duration.seconds(6),
    cleanupInterval: Duration.minutes(5),
    doneRetention: Duration.hours(168),
    eventRetention: Duration.hours(168),
    stuckTimeout: Duration.minutes(5),
    janitorInterval: Duration.minutes(2),
    lease
  }),
  Context.add(SchedulerConfig, { poll: Duration.seconds(5), onTime: Duration.seconds(12) }),
  Context.add(SweeperConfig, { ackRetention: Duration.seconds(4), interval: Duration.seconds(9) }),
  Context.add(EventLoop, EventLoop.still)
)

/** The settings of a pod with the next release of the program. */
export const ofNextRelease = Context.add(context, ClusterConfig, {
  ...Context.get(context, ClusterConfig),
  workerVersion: Option.some("2")
})

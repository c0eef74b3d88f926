import { Config, ConfigError, Context, Duration, Effect, Either, Layer } from "effect"
import * as DurationText from "../core/DurationText.js"
import * as Setting from "../core/Setting.js"
import * as DatabaseClock from "../database/DatabaseClock.js"
import * as WorkerConfig from "./WorkerConfig.js"

export const settings = {
  workerPrefix: Setting.optionalText({
    key: "NIGHTSHIFT_WORKER_PREFIX",
    about:
      "Prefix of this process's label, `{prefix}-worker-{version}-{id}`. Without it, the generated id of the process is shown."
  }),
  workerVersion: Setting.optionalText({
    key: "NIGHTSHIFT_WORKER_VERSION",
    about:
      "Version in the label, and part of the release of workflows. If unset, the label has no version and the process reports the Nightshift release."
  }),
  workerId: Setting.optionalText({
    key: "NIGHTSHIFT_WORKER_ID",
    about: "Id in the label. If unset, four digits of a hash of the generated id."
  }),
  podHeartbeat: Setting.positiveDuration(
    {
      key: "NIGHTSHIFT_POD_HEARTBEAT",
      about: "Interval of the process heartbeat, which also fetches the assigned slots."
    },
    "1s"
  ),
  staleAfter: Setting.positiveDuration(
    {
      key: "QUEUE_STALE_AFTER",
      about:
        "Time without a heartbeat after which the reaper considers a running job or a process dead. A process whose database session has ended is dead after two missed heartbeats."
    },
    "60s"
  ),
  reaperInterval: Setting.positiveDuration(
    {
      key: "QUEUE_REAPER_INTERVAL",
      about: "Interval at which the reaper of every process looks for dead processes and for jobs without a heartbeat."
    },
    "15s"
  ),
  stuckTimeout: Setting.positiveDuration(
    {
      key: "QUEUE_STUCK_TIMEOUT",
      about:
        "Time without a heartbeat after which a starting process returns a running job to the queue. If this is shorter than QUEUE_STALE_AFTER, the reaper also applies it, once per QUEUE_JANITOR_INTERVAL. Values of 0 or less use the default."
    },
    "30m"
  ),
  rebalanceInterval: Setting.positiveDuration(
    {
      key: "NIGHTSHIFT_REBALANCE_INTERVAL",
      about: "Interval at which the leader assigns the queues' slots to processes."
    },
    "5s"
  ),
  cleanupInterval: Setting.positiveDuration(
    { key: "QUEUE_CLEANUP_INTERVAL", about: "Interval at which the leader deletes data past its retention." },
    "5m"
  ),
  doneRetention: Setting.positiveDuration(
    {
      key: "QUEUE_DONE_RETENTION",
      about: "Retention of done jobs whose queue sets none. Values of 0 or less use the default."
    },
    "168h"
  ),
  eventRetention: Setting.positiveDuration(
    {
      key: "QUEUE_EVENT_RETENTION",
      about: "Retention of published events. Values of 0 or less use the default."
    },
    "168h"
  ),
  janitorInterval: Setting.positiveDuration(
    {
      key: "QUEUE_JANITOR_INTERVAL",
      about:
        "Upper limit for QUEUE_REAPER_INTERVAL and QUEUE_CLEANUP_INTERVAL, and the interval at which the reaper applies QUEUE_STUCK_TIMEOUT. Values of 0 or less use the default."
    },
    "1h"
  )
}

type Values = Setting.Values<typeof settings> & {
  /** How long leadership lasts without a renewal, and how long a pod counts as alive without a heartbeat. */
  readonly lease: Duration.Duration
}

/** Minimum ratio of a timeout to the interval of its heartbeat, so that one late heartbeat does not trigger it. */
const beatsToMiss = 3

const atLeast = (
  key: string,
  value: Duration.Duration,
  beat: { readonly key: string; readonly every: Duration.Duration }
) =>
  Duration.greaterThanOrEqualTo(value, Duration.times(beat.every, beatsToMiss))
    ? Either.void
    : Either.left(
        ConfigError.InvalidData(
          [key],
          `expected at least ${beatsToMiss} times ${beat.key} (${DurationText.format(beat.every)}), got ${DurationText.format(value)}`
        )
      )

export const config: Config.Config<Values> = Config.all([
  Setting.group(settings),
  Setting.group({ lease: DatabaseClock.settings.lease, heartbeat: WorkerConfig.settings.heartbeat })
]).pipe(
  Config.mapOrFail(([values, { heartbeat, lease }]) =>
    Either.gen(function* () {
      yield* atLeast("QUEUE_STALE_AFTER", values.staleAfter, { key: "QUEUE_HEARTBEAT", every: heartbeat })
      const beat = { key: "NIGHTSHIFT_POD_HEARTBEAT", every: values.podHeartbeat }
      yield* atLeast("QUEUE_STALE_AFTER", values.staleAfter, beat)
      yield* atLeast("QUEUE_STUCK_TIMEOUT", values.stuckTimeout, { key: "QUEUE_HEARTBEAT", every: heartbeat })
      yield* atLeast("NIGHTSHIFT_LEASE", lease, beat)
      return { ...values, lease }
    })
  )
)

/** Cluster settings: heartbeats, leadership, recovery and cleanup. */
export class ClusterConfig extends Context.Tag("nightshift/worker/ClusterConfig")<ClusterConfig, Values>() {
  static readonly layer: Layer.Layer<ClusterConfig, ConfigError.ConfigError> = Layer.effect(
    ClusterConfig,
    Effect.flatten(Effect.succeed(config))
  )
}

import { Config, ConfigError, Context, Duration, Effect, Either, Layer } from "effect"
import * as DurationText from "../core/DurationText.js"
import * as Setting from "../core/Setting.js"
import * as DatabaseClock from "../database/DatabaseClock.js"
import * as CrewConfig from "./CrewConfig.js"

export const settings = {
  workerPrefix: Setting.optionalText({
    key: "NIGHTSHIFT_WORKER_PREFIX",
    about: "Gives this process a label, `{prefix}-worker-{version}-{id}`; without it the pod id is shown."
  }),
  workerVersion: Setting.optionalText({
    key: "NIGHTSHIFT_WORKER_VERSION",
    about: "The version in the label. Unset, it is left out, and the pod shows this release's."
  }),
  workerId: Setting.optionalText({
    key: "NIGHTSHIFT_WORKER_ID",
    about: "The id in the label. Unset, it is four digits of a hash of the pod id."
  }),
  podHeartbeat: Setting.positiveDuration(
    {
      key: "NIGHTSHIFT_POD_HEARTBEAT",
      about: "How often a process shows that it lives, and hears how many slots it has."
    },
    "1s"
  ),
  staleAfter: Setting.positiveDuration(
    {
      key: "QUEUE_STALE_AFTER",
      about: "How long a running job, or a process, may show no sign of life before the reaper takes it for dead."
    },
    "60s"
  ),
  reaperInterval: Setting.positiveDuration(
    { key: "QUEUE_REAPER_INTERVAL", about: "How often every process looks for dead ones." },
    "15s"
  ),
  rebalanceInterval: Setting.positiveDuration(
    {
      key: "NIGHTSHIFT_REBALANCE_INTERVAL",
      about: "How often the leader splits the queues' slots over the processes."
    },
    "5s"
  ),
  cleanupInterval: Setting.positiveDuration(
    { key: "QUEUE_CLEANUP_INTERVAL", about: "How often the leader forgets what is past its retention." },
    "5m"
  )
}

type Values = Setting.Values<typeof settings> & {
  /** How long a leader stays one without renewing, and a pod counts as live without a beat. */
  readonly lease: Duration.Duration
}

/** What is looked at must come several times before it counts as missing: one late beat is no death. */
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

const config: Config.Config<Values> = Config.all([
  Setting.group(settings),
  Setting.group({ lease: DatabaseClock.settings.lease, heartbeat: CrewConfig.settings.heartbeat })
]).pipe(
  Config.mapOrFail(([values, { heartbeat, lease }]) =>
    Either.gen(function* () {
      yield* atLeast("QUEUE_STALE_AFTER", values.staleAfter, { key: "QUEUE_HEARTBEAT", every: heartbeat })
      const beat = { key: "NIGHTSHIFT_POD_HEARTBEAT", every: values.podHeartbeat }
      yield* atLeast("QUEUE_STALE_AFTER", values.staleAfter, beat)
      yield* atLeast("NIGHTSHIFT_LEASE", lease, beat)
      return { ...values, lease }
    })
  )
)

/** How pods live together. */
export class ClusterConfig extends Context.Tag("nightshift/crew/ClusterConfig")<ClusterConfig, Values>() {
  static readonly layer: Layer.Layer<ClusterConfig, ConfigError.ConfigError> = Layer.effect(
    ClusterConfig,
    Effect.flatten(Effect.succeed(config))
  )
}

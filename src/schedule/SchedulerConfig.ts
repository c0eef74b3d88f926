import { Config, Context, Duration, Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../core/Setting.js"
import * as DatabaseClock from "../database/DatabaseClock.js"

export const settings = {
  poll: Setting.positiveDuration(
    {
      key: "SCHEDULE_POLL",
      about: "Interval at which the leader polls for changed schedules. Values of 0 or less use the default."
    },
    "5s"
  )
}

interface Values extends Setting.Values<typeof settings> {
  /** Maximum delay of a tick that still counts as on time; covers the change of a dead leader. */
  readonly onTime: Duration.Duration
}

const config: Config.Config<Values> = Config.map(
  Setting.group({ ...settings, lease: DatabaseClock.settings.lease }),
  ({ lease, poll }) => ({ poll, onTime: Duration.sum(lease, poll) })
)

/** Settings of the scheduler. */
export class SchedulerConfig extends Context.Tag("nightshift/schedule/SchedulerConfig")<SchedulerConfig, Values>() {
  static readonly layer: Layer.Layer<SchedulerConfig, ConfigError> = Layer.effect(SchedulerConfig, config)
}

import { Config, Context, Duration, Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../../core/Setting.js"
import * as DatabaseClock from "../../database/DatabaseClock.js"

export const settings = {
  poll: Setting.positiveDuration(
    {
      key: "SCHEDULE_POLL",
      about:
        "How often the leader looks for changes of schedules that nobody told it of. Not positive means the default."
    },
    "5s"
  )
}

interface Values extends Setting.Values<typeof settings> {
  /** How late a tick may be fired and still be in time: what the death of a leader may cost. */
  readonly onTime: Duration.Duration
}

const config: Config.Config<Values> = Config.map(
  Setting.group({ ...settings, lease: DatabaseClock.settings.lease }),
  ({ lease, poll }) => ({ poll, onTime: Duration.sum(lease, poll) })
)

/** What the scheduler goes by. */
export class SchedulerConfig extends Context.Tag("nightshift/crew/SchedulerConfig")<SchedulerConfig, Values>() {
  static readonly layer: Layer.Layer<SchedulerConfig, ConfigError> = Layer.effect(SchedulerConfig, config)
}

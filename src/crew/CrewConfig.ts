import { Context, type Duration, Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../core/Setting.js"
import * as Masking from "../telemetry/Masking.js"

export const settings = {
  queues: Setting.list({
    key: "NIGHTSHIFT_QUEUES",
    about:
      "The queues this process serves, separated by commas. `serve` alone: `default` and those of the app's kinds and the async bots."
  }),
  slots: Setting.integer(
    {
      key: "NIGHTSHIFT_SLOTS",
      about: "At most how many jobs of one queue this process runs at a time, whatever the queue's worker total."
    },
    64,
    { min: 1, max: 64 }
  ),
  poll: Setting.duration(
    { key: "QUEUE_POLL", about: "How often an idle process looks for work that nobody told it of." },
    "2s"
  ),
  heartbeat: Setting.duration(
    { key: "QUEUE_HEARTBEAT", about: "How often a process shows that it still works on its jobs." },
    "10s"
  ),
  grace: Setting.duration(
    { key: "SHUTDOWN_GRACE", about: "How long running jobs may go on after the process was told to stop." },
    "25s"
  )
}

/** How a pod runs jobs. */
export class CrewConfig extends Context.Tag("nightshift/crew/CrewConfig")<
  CrewConfig,
  Setting.Values<typeof settings> & Partial<Setting.Values<typeof Masking.settings>>
>() {
  static readonly layer: Layer.Layer<CrewConfig, ConfigError> = Layer.effect(
    CrewConfig,
    Setting.group({ ...settings, ...Masking.settings })
  )
}

/** How long a handler may ignore being interrupted before its slot is given up. */
export const interruptTimeout: Duration.DurationInput = "5 seconds"

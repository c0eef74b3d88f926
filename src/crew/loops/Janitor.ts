import { Context, Effect, Layer, Schedule } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as DurationText from "../../core/DurationText.js"
import type { Loop } from "../../core/Loop.js"
import * as Setting from "../../core/Setting.js"
import { Queue } from "../../queue/Queue.js"
import * as Reaper from "./Reaper.js"

export const settings = {
  doneRetention: Setting.positiveDuration(
    {
      key: "QUEUE_DONE_RETENTION",
      about: "Retention of done jobs whose queue sets none. Values of 0 or less use the default."
    },
    "168h"
  ),
  stuckTimeout: Setting.positiveDuration(
    {
      key: "QUEUE_STUCK_TIMEOUT",
      about:
        "Time without a heartbeat after which a starting process and the janitor return a running job to the queue. Values of 0 or less use the default."
    },
    "30m"
  ),
  interval: Setting.positiveDuration(
    { key: "QUEUE_JANITOR_INTERVAL", about: "Interval of the janitor. Values of 0 or less use the default." },
    "1h"
  )
}

/** Settings of the janitor. */
export class JanitorConfig extends Context.Tag("nightshift/crew/JanitorConfig")<
  JanitorConfig,
  Setting.Values<typeof settings>
>() {
  static readonly layer: Layer.Layer<JanitorConfig, ConfigError> = Layer.effect(JanitorConfig, Setting.group(settings))
}

/**
 * Returns jobs without a heartbeat to the queue, then deletes done jobs past their retention. The steps fail
 * independently.
 */
export const make: Effect.Effect<Loop, never, Queue | JanitorConfig> = Effect.gen(function* () {
  const queue = yield* Queue
  const rescue = yield* Reaper.makeRescue
  const config = yield* JanitorConfig
  return {
    name: "janitor",
    about: `every ${DurationText.format(config.interval)}, rescuing jobs without a heartbeat for ${DurationText.format(config.stuckTimeout)}, deleting jobs done for ${DurationText.format(config.doneRetention)}`,
    schedule: Schedule.spaced(config.interval),
    runAtStart: true,
    steps: [
      {
        name: "recover",
        timeout: "30 seconds",
        run: rescue(config.stuckTimeout)
      },
      {
        name: "purge",
        timeout: "30 seconds",
        run: Effect.map(queue.purge(config.doneRetention), (purged) => ({ ...purged }))
      }
    ]
  }
})

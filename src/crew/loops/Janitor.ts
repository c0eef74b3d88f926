import { Context, Effect, Layer, Schedule } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as DurationText from "../../core/DurationText.js"
import type { Loop } from "../../core/Loop.js"
import * as Setting from "../../core/Setting.js"
import { Queue } from "../../queue/Queue.js"
import * as Rescue from "./Rescue.js"

export const settings = {
  doneRetention: Setting.positiveDuration(
    {
      key: "QUEUE_DONE_RETENTION",
      about: "How long done jobs are kept where their queue does not say. Not positive means the default."
    },
    "168h"
  ),
  stuckTimeout: Setting.positiveDuration(
    {
      key: "QUEUE_STUCK_TIMEOUT",
      about:
        "How long a running job may show no sign of life before the janitor takes it back. Not positive means the default."
    },
    "30m"
  ),
  interval: Setting.positiveDuration(
    { key: "QUEUE_JANITOR_INTERVAL", about: "How often the janitor makes its round. Not positive means the default." },
    "1h"
  )
}

/** What the janitor goes by. */
export class JanitorConfig extends Context.Tag("nightshift/crew/JanitorConfig")<
  JanitorConfig,
  Setting.Values<typeof settings>
>() {
  static readonly layer: Layer.Layer<JanitorConfig, ConfigError> = Layer.effect(JanitorConfig, Setting.group(settings))
}

/** Takes back jobs whose pod went quiet, then forgets done ones past their retention. Neither waits for the other's luck. */
export const make: Effect.Effect<Loop, never, Queue | JanitorConfig> = Effect.gen(function* () {
  const queue = yield* Queue
  const rescue = yield* Rescue.make
  const config = yield* JanitorConfig
  return {
    name: "janitor",
    about: `every ${DurationText.format(config.interval)}, taking back jobs quiet for ${DurationText.format(config.stuckTimeout)}, forgetting those done for ${DurationText.format(config.doneRetention)}`,
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

import { monitorEventLoopDelay } from "node:perf_hooks"
import { Context, Effect, Layer } from "effect"

/** How long this process keeps its callbacks waiting. */
export class EventLoop extends Context.Tag("nightshift/telemetry/EventLoop")<
  EventLoop,
  {
    /** The longest delay since the last time anyone asked, in seconds. */
    readonly longestDelaySeconds: Effect.Effect<number>
  }
>() {
  static readonly layer: Layer.Layer<EventLoop> = Layer.scoped(
    EventLoop,
    Effect.gen(function* () {
      const histogram = yield* Effect.acquireRelease(
        Effect.sync(() => {
          const monitor = monitorEventLoopDelay({ resolution: 20 })
          monitor.enable()
          return monitor
        }),
        (monitor) => Effect.sync(() => monitor.disable())
      )
      return {
        longestDelaySeconds: Effect.sync(() => {
          const seconds = histogram.max / 1e9
          histogram.reset()
          return seconds
        })
      }
    })
  )
}

import { type IntervalHistogram, monitorEventLoopDelay } from "node:perf_hooks"
import { Context, Effect, Layer, Option, type Scope } from "effect"
import { Histogram } from "./Histogram.js"

/** How late callbacks were, in seconds. */
export interface Delays {
  readonly p99: number
  readonly max: number
}

/** How long this process keeps its callbacks waiting. */
export class EventLoop extends Context.Tag("nightshift/telemetry/EventLoop")<
  EventLoop,
  {
    /** The longest delay since the last time anyone asked for it, in seconds. */
    readonly longestDelaySeconds: Effect.Effect<number>

    /** Begins to watch. Each watcher hears of the delays since it last asked, whoever else asks. */
    readonly watch: Effect.Effect<Effect.Effect<Delays>>
  }
>() {
  static readonly layer: Layer.Layer<EventLoop> = Layer.scoped(
    EventLoop,
    Effect.gen(function* () {
      const watchers: Array<Histogram> = []
      const monitor = yield* Effect.acquireRelease(
        Effect.sync(() => {
          const started = monitorEventLoopDelay({ resolution })
          started.enable()
          return { histogram: started, readAt: performance.now() }
        }),
        ({ histogram }) => Effect.sync(() => histogram.disable())
      )
      const watch = Effect.sync(() => {
        const own = new Histogram()
        passOn(monitor, watchers)
        watchers.push(own)
        return Effect.sync(() => {
          passOn(monitor, watchers)
          const delays = { p99: (own.quantile(0.99) ?? 0) / 1000, max: own.max / 1000 }
          own.clear()
          return delays
        })
      })
      return { watch, longestDelaySeconds: Effect.map(yield* watch, ({ max }) => max) }
    })
  )

  /** The one that was provided, or else one of its own: where time is virtual, nothing real may be late. */
  static readonly own: Effect.Effect<typeof EventLoop.Service, never, Scope.Scope> = Effect.flatMap(
    Effect.serviceOption(EventLoop),
    Option.match({
      onSome: Effect.succeed,
      onNone: () => Effect.map(Layer.build(Layer.fresh(EventLoop.layer)), Context.get(EventLoop))
    })
  )

  /** Never late. */
  static readonly still: typeof EventLoop.Service = {
    longestDelaySeconds: Effect.succeed(0),
    watch: Effect.succeed(Effect.succeed({ p99: 0, max: 0 }))
  }
}

/** How often the monitor looks, in milliseconds. It reports this much when nothing is late. */
const resolution = 20

interface Monitor {
  readonly histogram: IntervalHistogram
  /** When it was last read, by `performance.now()`. */
  readAt: number
}

/**
 * The stretch since the last reading that the monitor has not seen, in milliseconds. It knows a delay only when its timer
 * has fired again, and a reset makes it forget when it last did: a block that goes on until we read, or that began as soon
 * as we had, would never be told. Up to two looks are missing anyway.
 */
const unseen = (monitor: Monitor, now: number): number => {
  const { count, mean } = monitor.histogram
  const seen = count === 0 ? 0 : (mean * count) / 1e6
  return now - monitor.readAt - seen - 2 * resolution
}

/** The monitor has one memory, and reading it for one watcher must not take anything from another. */
const passOn = (monitor: Monitor, watchers: ReadonlyArray<Histogram>) => {
  const { histogram } = monitor
  const now = performance.now()
  const missing = unseen(monitor, now)
  let below = 0
  for (const [percentile, nanos] of histogram.percentiles) {
    const times = Math.round(((percentile - below) / 100) * histogram.count)
    below = percentile
    for (const watcher of watchers) watcher.record(nanos / 1e6 - resolution, times)
  }
  if (histogram.count > 0) for (const watcher of watchers) watcher.record(histogram.max / 1e6 - resolution)
  if (missing > resolution) for (const watcher of watchers) watcher.record(missing)
  histogram.reset()
  monitor.readAt = now
}

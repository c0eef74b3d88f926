import { monitorEventLoopDelay } from "node:perf_hooks"
import { Context, Effect, Layer, Option, type Scope } from "effect"
import { Histogram } from "./Histogram.js"

/** Event loop delays, in seconds. */
export interface Delays {
  readonly p99: number
  readonly max: number
}

/** Measures the event loop delay of this process. */
export class EventLoop extends Context.Tag("nightshift/telemetry/EventLoop")<
  EventLoop,
  {
    /** Longest delay since the last read, in seconds. */
    readonly longestDelaySeconds: Effect.Effect<number>

    /** Starts a watcher. Each watcher reads the delays since its own last read, independent of other watchers. */
    readonly watch: Effect.Effect<Effect.Effect<Delays>>
  }
>() {
  static readonly layer: Layer.Layer<EventLoop> = Layer.suspend(() =>
    EventLoop.layerOver(() => monitorEventLoopDelay({ resolution }))
  )

  /** On another monitor than Node's. */
  static readonly layerOver = (open: () => DelayHistogram): Layer.Layer<EventLoop> =>
    Layer.scoped(
      EventLoop,
      Effect.gen(function* () {
        const watchers: Array<Histogram> = []
        const monitor = yield* Effect.acquireRelease(
          Effect.sync(() => {
            const started = open()
            started.enable()
            return { histogram: started, readAt: performance.now() }
          }),
          ({ histogram }) => Effect.sync(() => histogram.disable())
        )
        const watch = Effect.sync(() => {
          const own = new Histogram()
          copyTo(monitor, watchers)
          watchers.push(own)
          return Effect.sync(() => {
            copyTo(monitor, watchers)
            const delays = { p99: (own.quantile(0.99) ?? 0) / 1000, max: own.max / 1000 }
            own.clear()
            return delays
          })
        })
        return { watch, longestDelaySeconds: Effect.map(yield* watch, ({ max }) => max) }
      })
    )

  /**
   * The provided service, or a new one. Programs with a virtual clock provide `still`, because real delays mean nothing
   * there.
   */
  static readonly own: Effect.Effect<typeof EventLoop.Service, never, Scope.Scope> = Effect.flatMap(
    Effect.serviceOption(EventLoop),
    Option.match({
      onSome: Effect.succeed,
      onNone: () => Effect.map(Layer.build(Layer.fresh(EventLoop.layer)), Context.get(EventLoop))
    })
  )

  static readonly still: typeof EventLoop.Service = {
    longestDelaySeconds: Effect.succeed(0),
    watch: Effect.succeed(Effect.succeed({ p99: 0, max: 0 }))
  }
}

/** Sampling interval of the monitor, in milliseconds. The monitor includes it in every reading. */
const resolution = 20

/** The delays since the last reset, in nanoseconds. Bun gives some of them as BigInt. */
export interface DelayHistogram {
  readonly count: number | bigint
  readonly mean: number | bigint
  readonly max: number | bigint
  readonly percentiles: Iterable<readonly [percentile: number, nanos: number | bigint]>
  enable(): void
  disable(): void
  reset(): void
}

interface Monitor {
  readonly histogram: DelayHistogram
  /** Time of the last read, from `performance.now()`. */
  readAt: number
}

/**
 * Time since the last read that the monitor has not recorded, in milliseconds. The monitor records a delay only when
 * its timer fires again, and a reset clears its last firing: a block that lasts until this read, or that started right
 * after the previous one, would never be recorded. Up to two intervals are always missing.
 */
const unseen = (monitor: Monitor, now: number): number => {
  const count = Number(monitor.histogram.count)
  const seen = count === 0 ? 0 : (Number(monitor.histogram.mean) * count) / 1e6
  return now - monitor.readAt - seen - 2 * resolution
}

/**
 * Copies the readings to all watchers: the monitor has one buffer, and a read by one watcher must not hide data from
 * another.
 */
const copyTo = (monitor: Monitor, watchers: ReadonlyArray<Histogram>) => {
  const { histogram } = monitor
  const now = performance.now()
  const missing = unseen(monitor, now)
  const count = Number(histogram.count)
  let below = 0
  for (const [percentile, nanos] of histogram.percentiles) {
    const times = Math.round(((percentile - below) / 100) * count)
    below = percentile
    for (const watcher of watchers) watcher.record(Number(nanos) / 1e6 - resolution, times)
  }
  if (count > 0) for (const watcher of watchers) watcher.record(Number(histogram.max) / 1e6 - resolution)
  if (missing > resolution) for (const watcher of watchers) watcher.record(missing)
  histogram.reset()
  monitor.readAt = now
}

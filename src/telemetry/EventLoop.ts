import { type IntervalHistogram, monitorEventLoopDelay } from "node:perf_hooks"
import { Clock, Context, Effect, Layer, Option, Schedule, type Scope } from "effect"
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
  /** The monitors of Bun and Deno measure something else: Bun's leaves the interval out, Deno's notices no block. */
  static readonly layer: Layer.Layer<EventLoop> = Layer.suspend(() =>
    "bun" in process.versions || "deno" in process.versions ? EventLoop.layerTimer : layerOf(nodeMonitor)
  )

  /** Measures with a timer, on every runtime. Node's own monitor costs less. */
  static readonly layerTimer: Layer.Layer<EventLoop> = Layer.suspend(() => layerOf(timerMonitor))

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

/** Sampling interval of a monitor, in milliseconds. */
const resolution = 20

/** Starts a monitor. The result copies to the watchers what it has measured since the last call. */
type Monitor = (watchers: ReadonlyArray<Histogram>) => Effect.Effect<() => void, never, Scope.Scope>

const layerOf = (monitor: Monitor): Layer.Layer<EventLoop> =>
  Layer.scoped(
    EventLoop,
    Effect.gen(function* () {
      const watchers: Array<Histogram> = []
      const copy = yield* monitor(watchers)
      const watch = Effect.sync(() => {
        const own = new Histogram()
        copy()
        watchers.push(own)
        return Effect.sync(() => {
          copy()
          const delays = { p99: (own.quantile(0.99) ?? 0) / 1000, max: own.max / 1000 }
          own.clear()
          return delays
        })
      })
      return { watch, longestDelaySeconds: Effect.map(yield* watch, ({ max }) => max) }
    })
  )

/** Records how late the timer is. A block that lasts until a read is recorded by the read. */
const timerMonitor: Monitor = (watchers) =>
  Effect.gen(function* () {
    let firedAt = performance.now()
    const fire = () => {
      const now = performance.now()
      for (const watcher of watchers) watcher.record(now - firedAt - resolution)
      firedAt = now
    }
    const firing = Effect.schedule(Effect.sync(fire), Schedule.spaced(resolution))
    // In real time, even if the program's clock is virtual.
    yield* Effect.forkScoped(Effect.withClock(firing, Clock.make()))
    return fire
  })

/**
 * Time since the last read that the monitor has not recorded, in milliseconds. The monitor records a delay only when
 * its timer fires again, and a reset clears its last firing: a block that lasts until this read, or that started right
 * after the previous one, would never be recorded. Up to two intervals are always missing.
 */
const unseen = ({ count, mean }: IntervalHistogram, elapsed: number): number =>
  elapsed - (count === 0 ? 0 : (mean * count) / 1e6) - 2 * resolution

/** Node's monitor has one buffer, in nanoseconds, and includes the interval in every reading. */
const nodeMonitor: Monitor = (watchers) =>
  Effect.gen(function* () {
    const histogram = yield* Effect.acquireRelease(
      Effect.sync(() => {
        const started = monitorEventLoopDelay({ resolution })
        started.enable()
        return started
      }),
      (started) => Effect.sync(() => started.disable())
    )
    let readAt = performance.now()
    return () => {
      const now = performance.now()
      const missing = unseen(histogram, now - readAt)
      const { count } = histogram
      let below = 0
      for (const [percentile, nanos] of histogram.percentiles) {
        const times = Math.round(((percentile - below) / 100) * count)
        below = percentile
        for (const watcher of watchers) watcher.record(nanos / 1e6 - resolution, times)
      }
      if (count > 0) for (const watcher of watchers) watcher.record(histogram.max / 1e6 - resolution)
      if (missing > resolution) for (const watcher of watchers) watcher.record(missing)
      histogram.reset()
      readAt = now
    }
  })

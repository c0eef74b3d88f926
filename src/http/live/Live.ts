import { Array as Arr, Clock, Context, Duration, Effect, type Fiber, FiberId, Layer, Schedule } from "effect"
import { Leadership } from "../../cluster/Leadership.js"
import { repeated } from "../../core/Loop.js"
import type { JobOverview } from "../../queue/search/JobOverview.js"
import type { Queues } from "../../queue/settings/QueueSettings.js"
import type { AccessConfig } from "../access/AccessConfig.js"
import type { CallerSession } from "../access/Caller.js"
import * as Masked from "../access/Masked.js"
import type { ClusterOverview } from "../admin/ClusterOverview.js"
import type { ThroughputCache } from "../admin/ThroughputCache.js"
import * as Instant from "../Instant.js"
import type { CountsCache } from "../jobs/CountsCache.js"
import type { EventsUnavailable } from "../RequestErrors.js"
import { type EventStream, EventStreams, eventText, preamble } from "./EventStreams.js"
import * as LiveSnapshot from "./LiveSnapshot.js"

/** What a listener wants to receive. */
export interface LiveOptions {
  /** Whether `snapshot` and `jobs` contain jobs. */
  readonly jobs: boolean
  /** Whether jobs show hidden fields in their errors. */
  readonly seesAll: boolean
}

// One polling loop serves all listeners. It starts with the first listener and ends with the last. A new listener first
// gets a full snapshot, then changes. A slow listener does not delay the others: unread events are buffered up to a
// limit, and beyond it the listener is disconnected and may reconnect.
//
// Heartbeats have their own loop, because a poll waits for the database. They tell listeners that the process answers
// and whether its database does, and keep proxies from closing an idle connection.

const pollEvery = Duration.seconds(1)
const heartbeatEvery = Duration.seconds(5)
/** A database that does not answer a trivial query in this time counts as down. */
const pingTimeout = Duration.seconds(3)

/** Live events. */
export class Live extends Context.Tag("nightshift/http/Live")<
  Live,
  {
    /** Returns a stream of server-sent events that starts with a snapshot. */
    readonly follow: (
      session: CallerSession | undefined,
      options: LiveOptions
    ) => Effect.Effect<EventStream, EventsUnavailable>
  }
>() {
  static readonly layer: Layer.Layer<
    Live,
    never,
    CountsCache | ThroughputCache | Queues | JobOverview | ClusterOverview | Leadership | EventStreams | AccessConfig
  > = Layer.scoped(
    Live,
    Effect.gen(function* () {
      const streams = yield* EventStreams
      const snapshot = yield* LiveSnapshot.make
      const masked = yield* Masked.make
      const leadership = yield* Leadership
      const scope = yield* Effect.scope
      const turn = yield* Effect.makeSemaphore(1)
      const listeners = new Map<EventStream, LiveOptions>()
      let polling: Fiber.RuntimeFiber<void> | undefined
      let lastId = 0
      let database: "up" | "down" = "up"
      let isPinging = false

      const send = (to: ReadonlyArray<readonly [EventStream, LiveOptions]>, name: string, data: object) => {
        if (to.length === 0) return
        const text = eventText(name, lastId, data)
        for (const [listener] of to) listener.send(text)
      }

      const hide = (job: ReturnType<typeof LiveSnapshot.listedView>) => masked.shared(job, LiveSnapshot.hiddenView)

      /** An event about jobs has no data for listeners that want no jobs. */
      const sendJobs = (data: NonNullable<LiveSnapshot.Change["jobs"]>) => {
        const [withoutJobs, others] = Arr.partition([...listeners], ([, { jobs }]) => jobs)
        const [viewers, admins] = Arr.partition(others, ([, { seesAll }]) => seesAll)
        send(admins, "jobs", data)
        if (viewers.length > 0) send(viewers, "jobs", { ...data, jobs: data.jobs.map(hide) })
        send(withoutJobs, "jobs", {})
      }

      const poll = Effect.gen(function* () {
        const change = yield* snapshot.poll
        for (const [name, data] of Object.entries(change)) {
          lastId += 1
          if (name === "jobs" && change.jobs !== undefined) sendJobs(change.jobs)
          else send([...listeners], name, data)
        }
      })

      /** Whether the database answers. Asks once at a time, so that a silent database collects no queries. */
      const ping = Effect.suspend(() => {
        if (isPinging) return Effect.succeed(false)
        isPinging = true
        return leadership.leader.pipe(
          Effect.as(true),
          Effect.catchAll(() => Effect.succeed(false)),
          Effect.ensuring(
            Effect.sync(() => {
              isPinging = false
            })
          ),
          // Without waiting for the query to end.
          Effect.disconnect,
          Effect.timeoutTo({ duration: pingTimeout, onTimeout: () => false, onSuccess: (answers) => answers })
        )
      })

      const heartbeat = Effect.map(Clock.currentTimeMillis, (now) => {
        const { countedAt, measuredAt } = snapshot.current()
        return eventText("heartbeat", lastId, { at: Instant.format(now), database, countedAt, measuredAt })
      })

      // One after the other: a ping fails if another one waits for its answer.
      const look = (yield* Effect.makeSemaphore(1)).withPermits(1)(
        Effect.map(ping, (answers) => {
          database = answers ? "up" : "down"
        })
      )

      const beat = Effect.gen(function* () {
        yield* look
        const text = yield* heartbeat
        for (const listener of listeners.keys()) listener.send(text)
      })

      const every = (interval: Duration.Duration, name: string, run: Effect.Effect<void>) =>
        repeated({ name, schedule: Schedule.spaced(interval), runAtStart: false, run })

      const loops = Effect.all([every(pollEvery, "live", poll), every(heartbeatEvery, "live-heartbeat", beat)], {
        concurrency: "unbounded",
        discard: true
      })

      /** Completes the first poll before a listener gets its snapshot. */
      const startPolling = Effect.gen(function* () {
        if (polling !== undefined) return
        yield* poll
        polling = yield* Effect.forkIn(loops, scope)
      })

      const leave = (listener: EventStream) => {
        listeners.delete(listener)
        if (listeners.size > 0) return
        polling?.unsafeInterruptAsFork(FiberId.none)
        polling = undefined
      }

      const snapshotFor = ({ jobs: isWanted, seesAll }: LiveOptions) => {
        const { jobs, sampled, ...rest } = snapshot.current()
        if (!isWanted) return rest
        const views = jobs.map(LiveSnapshot.listedView)
        return { ...rest, jobs: seesAll ? views : views.map(hide), sampled }
      }

      const join = (listener: EventStream, options: LiveOptions): Effect.Effect<void> =>
        Effect.gen(function* () {
          yield* startPolling
          // A page may know from a request that the database is down: the state of the last heartbeat would contradict it.
          yield* look
          // The last other listener may have left meanwhile and stopped the loop.
          if (polling === undefined) return yield* join(listener, options)
          listeners.set(listener, options)
          listener.once("close", () => leave(listener))
          listener.send(preamble)
          listener.send(eventText("snapshot", lastId, snapshotFor(options)))
          listener.send(yield* heartbeat)
        })

      return {
        follow: (session, options) =>
          Effect.flatMap(streams.open(session), (listener) =>
            turn
              .withPermits(1)(join(listener, options))
              .pipe(
                Effect.onInterrupt(() => Effect.sync(() => listener.destroy())),
                Effect.as(listener)
              )
          )
      }
    })
  )
}

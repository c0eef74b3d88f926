import { Readable } from "node:stream"
import { Clock, Context, Duration, Effect, type Fiber, FiberId, Layer, Schedule } from "effect"
import { Leadership } from "../../cluster/Leadership.js"
import { Lifecycle } from "../../core/Lifecycle.js"
import { repeatLoop, single } from "../../core/Loop.js"
import type { JobOverview } from "../../queue/search/JobOverview.js"
import type { Queues } from "../../queue/settings/QueueSettings.js"
import { AccessConfig } from "../access/AccessConfig.js"
import type { CallerSession } from "../access/Caller.js"
import type { ClusterOverview } from "../admin/ClusterOverview.js"
import * as Instant from "../Instant.js"
import type { CountsCache } from "../jobs/CountsCache.js"
import { EventsUnavailable } from "../RequestErrors.js"
import * as LiveSnapshot from "./LiveSnapshot.js"

/** Maximum unread data before a listener is disconnected. */
const maxUnreadBytes = 1024 * 1024

/** Formats a server-sent event. JSON contains no line breaks, so one `data` line is enough. */
export const eventText = (name: string, id: number, data: unknown): string =>
  `event: ${name}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`

/** What a listener wants to receive. */
export interface LiveOptions {
  /** Whether `snapshot` and `jobs` contain jobs. */
  readonly jobs: boolean
}

/** The response body of one live event stream. */
export class LiveListener extends Readable {
  constructor(
    readonly session?: CallerSession,
    readonly options: LiveOptions = { jobs: true }
  ) {
    super({ highWaterMark: 64 * 1024 })
  }

  override _read(): void {}

  /** Sends text. Disconnects a listener that does not read, so memory stays bounded. */
  send(text: string): void {
    if (this.destroyed || this.readableEnded) return
    if (this.readableLength + text.length > maxUnreadBytes) this.destroy()
    else this.push(text)
  }

  /** Ends the stream. */
  finish(): void {
    if (!this.destroyed) this.push(null)
  }
}

// One polling loop serves all listeners. It starts with the first listener and ends with the last. A new listener first
// gets a full snapshot, then changes. A slow listener does not delay the others: unread events are buffered up to a
// limit, and beyond it the listener is disconnected and may reconnect.
//
// Heartbeats have their own loop, because a poll waits for the database. They tell listeners that the process answers
// and whether its database does, and keep proxies from closing an idle connection.

const pollEvery = Duration.seconds(1)
/** How often to check that the listeners' logins are still valid. */
const checkEvery = Duration.toMillis("2 seconds")
const heartbeatEvery = Duration.seconds(5)
/** A database that does not answer a trivial query in this time counts as down. */
const pingTimeout = Duration.seconds(3)

/** Live events. */
export class Live extends Context.Tag("nightshift/http/Live")<
  Live,
  {
    /**
     * Returns a stream of server-sent events that starts with a snapshot. It ends when the process drains or the login
     * ends: at once for a logout in this process, within seconds for an expiry or a logout in another process.
     */
    readonly follow: (
      session: CallerSession | undefined,
      options: LiveOptions
    ) => Effect.Effect<Readable, EventsUnavailable>
    /** Ends all streams of this login. */
    readonly endSession: (secret: string) => Effect.Effect<void>
    readonly listeners: () => number
  }
>() {
  static readonly layer: Layer.Layer<
    Live,
    never,
    CountsCache | Queues | JobOverview | ClusterOverview | Leadership | AccessConfig | Lifecycle
  > = Layer.scoped(
    Live,
    Effect.gen(function* () {
      const { listeners: maxListeners } = yield* AccessConfig
      const lifecycle = yield* Lifecycle
      const snapshot = yield* LiveSnapshot.make
      const leadership = yield* Leadership
      const scope = yield* Effect.scope
      const turn = yield* Effect.makeSemaphore(1)
      const listeners = new Set<LiveListener>()
      let polling: Fiber.RuntimeFiber<void> | undefined
      let lastId = 0
      let lastCheck = 0
      let database: "up" | "down" = "up"
      let isPinging = false

      /** Sends one text to all listeners, or another one to those without jobs. */
      const sendAll = (text: string, withoutJobs = text) => {
        for (const listener of listeners) listener.send(listener.options.jobs ? text : withoutJobs)
      }

      const endSession = (secret: string) => {
        for (const listener of listeners) if (listener.session?.secret === secret) listener.finish()
      }

      /** Checks each login once for all its tabs. A database failure does not end the streams. */
      const checkSessions = Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        if (now - lastCheck < checkEvery) return
        lastCheck = now
        const sessions = [...listeners].flatMap(({ session }) => (session === undefined ? [] : [session]))
        const distinct = new Map(sessions.map((session) => [session.secret, session.lasts]))
        for (const [secret, lasts] of distinct) {
          if (!(yield* Effect.orElseSucceed(lasts, () => true))) endSession(secret)
        }
      })

      const poll = Effect.gen(function* () {
        yield* checkSessions
        const change = yield* snapshot.poll
        for (const [name, data] of Object.entries(change)) {
          lastId += 1
          const text = eventText(name, lastId, data)
          sendAll(text, name === "jobs" ? eventText(name, lastId, {}) : text)
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

      const heartbeat = Effect.map(Clock.currentTimeMillis, (now) =>
        eventText("heartbeat", lastId, { at: Instant.format(now), database })
      )

      const beat = Effect.gen(function* () {
        database = (yield* ping) ? "up" : "down"
        sendAll(yield* heartbeat)
      })

      const repeated = (name: string, every: Duration.Duration, run: Effect.Effect<void>) =>
        repeatLoop(single({ name, schedule: Schedule.spaced(every), runAtStart: false, run }))

      const loops = Effect.all([repeated("live", pollEvery, poll), repeated("live-heartbeat", heartbeatEvery, beat)], {
        concurrency: "unbounded",
        discard: true
      })

      /** Completes the first poll before a listener gets its snapshot. */
      const startPolling = Effect.gen(function* () {
        if (polling !== undefined) return
        yield* beat
        yield* poll
        polling = yield* Effect.forkIn(loops, scope)
      })

      const leave = (listener: LiveListener) => {
        listeners.delete(listener)
        if (listeners.size > 0) return
        polling?.unsafeInterruptAsFork(FiberId.none)
        polling = undefined
      }

      const endAll = Effect.sync(() => {
        for (const listener of listeners) listener.finish()
      })
      yield* Effect.forkScoped(Effect.zipRight(lifecycle.untilDraining, endAll))
      yield* Effect.addFinalizer(() => endAll)

      const snapshotFor = ({ jobs: isWanted }: LiveOptions) => {
        const { jobs, sampled, ...rest } = snapshot.current()
        return isWanted ? { ...rest, jobs, sampled } : rest
      }

      const join = (
        session: CallerSession | undefined,
        options: LiveOptions
      ): Effect.Effect<Readable, EventsUnavailable> =>
        Effect.gen(function* () {
          if (yield* lifecycle.draining)
            return yield* new EventsUnavailable({ reason: "this process is shutting down" })
          if (listeners.size >= maxListeners)
            return yield* new EventsUnavailable({
              reason: `the limit of ${maxListeners} streams (LIVE_LISTENERS) is reached`
            })
          yield* startPolling
          // The last other listener may have left meanwhile and stopped the loop.
          if (polling === undefined) return yield* join(session, options)
          const listener = new LiveListener(session, options)
          listeners.add(listener)
          listener.once("close", () => leave(listener))
          listener.send(eventText("snapshot", lastId, snapshotFor(options)))
          listener.send(yield* heartbeat)
          return listener
        })

      return {
        follow: (session, options) => turn.withPermits(1)(join(session, options)),
        endSession: (secret) => Effect.sync(() => endSession(secret)),
        listeners: () => listeners.size
      }
    })
  )
}

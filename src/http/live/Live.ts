import type { Readable } from "node:stream"
import { Clock, Context, Duration, Effect, type Fiber, FiberId, Layer, Schedule } from "effect"
import { Lifecycle } from "../../core/Lifecycle.js"
import { repeatLoop, single } from "../../core/Loop.js"
import type { JobOverview } from "../../queue/search/JobOverview.js"
import type { Queues } from "../../queue/settings/QueueSettings.js"
import { AccessConfig } from "../access/AccessConfig.js"
import type { CallerSession } from "../access/Caller.js"
import type { ClusterOverview } from "../ClusterOverview.js"
import type { CountsCache } from "../jobs/CountsCache.js"
import { LiveRefused } from "../RequestErrors.js"
import { eventText, heartbeat, LiveListener } from "./LiveListener.js"
import * as LiveSnapshot from "./LiveSnapshot.js"

// One look at the database serves everybody who follows. Looking begins with the first of them and ends with the last; who
// joins gets the whole picture first, and then what changes in it. Nobody is waited for: what somebody does not read is
// kept for them up to a bound, and beyond it they are dropped and may come again.

const lookEvery = Duration.seconds(1)
/** How often it is asked whether logins still last. */
const checkEvery = Duration.toMillis("2 seconds")
const heartbeatEvery = Duration.toMillis("15 seconds")

/** What happens, as it happens. */
export class Live extends Context.Tag("nightshift/http/Live")<
  Live,
  {
    /**
     * Server-sent events from now on, beginning with a snapshot. They end when the process is about to, and with the login
     * of the follower: at once when it is ended in this process, within seconds when it expires or is ended elsewhere.
     */
    readonly follow: (session: CallerSession | undefined) => Effect.Effect<Readable, LiveRefused>
    /** Ends what the owner of this login follows. */
    readonly endSession: (secret: string) => Effect.Effect<void>
    readonly listeners: () => number
  }
>() {
  static readonly layer: Layer.Layer<
    Live,
    never,
    CountsCache | Queues | JobOverview | ClusterOverview | AccessConfig | Lifecycle
  > = Layer.scoped(
    Live,
    Effect.gen(function* () {
      const { listeners: most } = yield* AccessConfig
      const lifecycle = yield* Lifecycle
      const picture = yield* LiveSnapshot.make
      const scope = yield* Effect.scope
      const turn = yield* Effect.makeSemaphore(1)
      const listeners = new Map<LiveListener, CallerSession | undefined>()
      let looking: Fiber.RuntimeFiber<void> | undefined
      let lastId = 0
      let lastWord = 0
      let lastCheck = 0

      const tellAll = (text: string, now: number) => {
        lastWord = now
        for (const listener of listeners.keys()) listener.tell(text)
      }

      const endSession = (secret: string) => {
        for (const [listener, session] of listeners) if (session?.secret === secret) listener.finish()
      }

      /** Asks once for all tabs of a login. A database that is away does not end it. */
      const checkSessions = Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        if (now - lastCheck < checkEvery) return
        lastCheck = now
        const sessions = [...listeners.values()].flatMap((session) => (session === undefined ? [] : [session]))
        const distinct = new Map(sessions.map((session) => [session.secret, session.lasts]))
        for (const [secret, lasts] of distinct) {
          if (!(yield* Effect.orElseSucceed(lasts, () => true))) endSession(secret)
        }
      })

      const look = Effect.gen(function* () {
        yield* checkSessions
        const change = yield* picture.look
        const now = yield* Clock.currentTimeMillis
        for (const [name, data] of Object.entries(change)) {
          lastId += 1
          tellAll(eventText(name, lastId, data), now)
        }
        if (now - lastWord >= heartbeatEvery) tellAll(heartbeat, now)
      })

      const loop = single({
        name: "live",
        schedule: Schedule.spaced(lookEvery),
        runAtStart: false,
        run: look
      })

      /** The first look is over before anybody is shown anything. */
      const startLooking = Effect.gen(function* () {
        if (looking !== undefined) return
        yield* look
        looking = yield* Effect.forkIn(repeatLoop(loop), scope)
      })

      const leave = (listener: LiveListener) => {
        listeners.delete(listener)
        if (listeners.size > 0) return
        looking?.unsafeInterruptAsFork(FiberId.none)
        looking = undefined
      }

      const endAll = Effect.sync(() => {
        for (const listener of listeners.keys()) listener.finish()
      })
      yield* Effect.forkScoped(Effect.zipRight(lifecycle.untilDraining, endAll))
      yield* Effect.addFinalizer(() => endAll)

      const join = (session: CallerSession | undefined): Effect.Effect<Readable, LiveRefused> =>
        Effect.gen(function* () {
          if (yield* lifecycle.draining) return yield* new LiveRefused({ reason: "this process is shutting down" })
          if (listeners.size >= most) return yield* new LiveRefused({ reason: `${most} follow them already` })
          yield* startLooking
          // The last of the others may have left meanwhile, and the looking with them.
          if (looking === undefined) return yield* join(session)
          const listener = new LiveListener()
          listeners.set(listener, session)
          listener.once("close", () => leave(listener))
          listener.tell(eventText("snapshot", lastId, picture.current()))
          return listener
        })

      return {
        follow: (session) => turn.withPermits(1)(join(session)),
        endSession: (secret) => Effect.sync(() => endSession(secret)),
        listeners: () => listeners.size
      }
    })
  )
}

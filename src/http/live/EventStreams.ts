import { Readable } from "node:stream"
import { Clock, Context, Duration, Effect, type Fiber, FiberId, Layer, Schedule } from "effect"
import { Lifecycle } from "../../core/Lifecycle.js"
import { repeated } from "../../core/Loop.js"
import { AccessConfig } from "../access/AccessConfig.js"
import type { CallerSession } from "../access/Caller.js"
import { EventsUnavailable } from "../RequestErrors.js"

/** Maximum unread data before a listener is disconnected. */
const maxUnreadBytes = 1024 * 1024

/** Formats a server-sent event. JSON contains no line breaks, so one `data` line is enough. */
export const eventText = (name: string | undefined, id: number | string, data: unknown): string =>
  `${name === undefined ? "" : `event: ${name}\n`}id: ${id}\ndata: ${JSON.stringify(data)}\n\n`

/** First text of a response: how soon a browser reconnects, in milliseconds. */
export const preamble = "retry: 1000\n\n"

/** An SSE comment, which keeps proxies from closing an idle connection. */
const heartbeat = ": \n\n"

/** Headers of the response. */
export const headers = {
  "content-type": "text/event-stream",
  // Proxies must not buffer or transform the stream.
  "cache-control": "no-store, no-transform",
  "x-accel-buffering": "no",
  // No keep-alive: an idle connection would delay the server's shutdown.
  connection: "close"
}

/** The response body of one stream of events. */
export class EventStream extends Readable {
  /** Whether something was sent since the last heartbeat. */
  isBusy = true
  private onRoom: () => void = () => {}
  private isFinished = false

  constructor(readonly session?: CallerSession) {
    super({ highWaterMark: 64 * 1024 })
  }

  override _read(): void {
    this.onRoom()
  }

  /** Sends text of any size. Disconnects a listener that does not read, so memory stays bounded. */
  send(text: string): void {
    if (this.destroyed || this.isFinished) return
    this.isBusy = true
    if (this.readableLength > maxUnreadBytes) this.destroy()
    else this.push(text)
  }

  /** Completes when the listener has read what was sent, up to the size of the buffer. */
  readonly room: Effect.Effect<void> = Effect.async<void>((resume) => {
    if (this.readableLength < this.readableHighWaterMark) return resume(Effect.void)
    this.onRoom = () => {
      this.onRoom = () => {}
      resume(Effect.void)
    }
  })

  /** Ends the stream. */
  finish(): void {
    if (this.destroyed || this.isFinished) return
    this.isFinished = true
    this.push(null)
  }
}

const checkEvery = Duration.seconds(2)
const heartbeatEvery = Duration.toMillis("15 seconds")

/** The open streams of server-sent events of this process. */
export class EventStreams extends Context.Tag("nightshift/http/EventStreams")<
  EventStreams,
  {
    /**
     * Opens a stream. It ends when the process drains or the login ends: at once for a logout in this process, within
     * seconds for an expiry or a logout in another process.
     */
    readonly open: (session: CallerSession | undefined) => Effect.Effect<EventStream, EventsUnavailable>
    /** Ends all streams of this login. */
    readonly endSession: (secret: string) => Effect.Effect<void>
  }
>() {
  static readonly layer: Layer.Layer<EventStreams, never, AccessConfig | Lifecycle> = Layer.scoped(
    EventStreams,
    Effect.gen(function* () {
      const { listeners: maxListeners } = yield* AccessConfig
      const lifecycle = yield* Lifecycle
      const scope = yield* Effect.scope
      const streams = new Set<EventStream>()
      let checking: Fiber.RuntimeFiber<void> | undefined
      let lastBeat = 0

      const endSession = (secret: string) => {
        for (const stream of streams) if (stream.session?.secret === secret) stream.finish()
      }

      /** Checks each login once for all its tabs. A database failure does not end the streams. */
      const check = Effect.gen(function* () {
        const sessions = [...streams].flatMap(({ session }) => (session === undefined ? [] : [session]))
        const distinct = new Map(sessions.map((session) => [session.secret, session.lasts]))
        for (const [secret, lasts] of distinct) {
          if (!(yield* Effect.orElseSucceed(lasts, () => true))) endSession(secret)
        }
        const now = yield* Clock.currentTimeMillis
        if (now - lastBeat < heartbeatEvery) return
        lastBeat = now
        for (const stream of streams) {
          if (!stream.isBusy) stream.send(heartbeat)
          stream.isBusy = false
        }
      })
      const loop = repeated({
        name: "event streams",
        schedule: Schedule.spaced(checkEvery),
        runAtStart: false,
        run: check
      })

      const leave = (stream: EventStream) => {
        streams.delete(stream)
        if (streams.size > 0) return
        checking?.unsafeInterruptAsFork(FiberId.none)
        checking = undefined
      }

      const endAll = Effect.sync(() => {
        for (const stream of streams) stream.finish()
      })
      yield* Effect.forkScoped(Effect.zipRight(lifecycle.untilDraining, endAll))
      yield* Effect.addFinalizer(() => endAll)

      return {
        open: (session) =>
          Effect.gen(function* () {
            if (yield* lifecycle.draining)
              return yield* new EventsUnavailable({ reason: "this process is shutting down" })
            if (streams.size >= maxListeners)
              return yield* new EventsUnavailable({
                reason: `the limit of ${maxListeners} streams (LIVE_LISTENERS) is reached`
              })
            const stream = new EventStream(session)
            streams.add(stream)
            stream.once("close", () => leave(stream))
            checking ??= yield* Effect.forkIn(loop, scope)
            return stream
          }),
        endSession: (secret) => Effect.sync(() => endSession(secret))
      }
    })
  )
}

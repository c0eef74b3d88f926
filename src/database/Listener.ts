import { randomBytes } from "node:crypto"
import {
  Context,
  Data,
  Deferred,
  Duration,
  Effect,
  Layer,
  Option,
  Queue,
  type Redacted,
  Ref,
  Schedule,
  type Scope
} from "effect"
import pg from "pg"
import { steadyMillis, steadyNow } from "../core/ChangeWatch.js"
import { makeLatch } from "../core/LoopSchedule.js"
import { DatabaseConfig } from "./DatabaseConfig.js"
import { DatabaseUrl } from "./DatabaseUrl.js"
import * as SingleConnection from "./SingleConnection.js"
import * as Startup from "./Startup.js"

// LISTEN needs a dedicated connection, because pooled connections are replaced over time. The connection listens on
// every subscribed channel and is reopened when it breaks. Notifications sent while it was down are lost, so after
// every reconnect all subscribers are notified that they may have missed some. The server ends the connection's session soon
// after the process dies, so locks of that session show other processes whether this one lives.

/** A message to a subscriber of a channel. */
export type ListenerEvent = Data.TaggedEnum<{
  Notified: { readonly payload: string }
  /**
   * The connection is listening. Notifications sent before may have been missed. Sent first, and after every reconnect.
   */
  Resumed: {}
}>
export const ListenerEvent = Data.taggedEnum<ListenerEvent>()

/** Receives notifications from other processes. Delivery is not guaranteed, so subscribers must also poll. */
export class Listener extends Context.Tag("nightshift/database/Listener")<
  Listener,
  {
    /** Subscribes to a channel until the Scope closes. A slow subscriber loses the oldest messages first. */
    readonly subscribe: (channel: string) => Effect.Effect<Queue.Dequeue<ListenerEvent>, never, Scope.Scope>

    /**
     * Calls a function with each message of a channel until the Scope closes, without the delay of a queue and a fiber.
     * The driver waits for it, so it must be fast and must not throw.
     */
    readonly onMessage: (
      channel: string,
      receive: (event: ListenerEvent) => void
    ) => Effect.Effect<void, never, Scope.Scope>

    /** Whether notifications currently arrive. */
    readonly connected: Effect.Effect<boolean>

    /**
     * Holds a session-level advisory lock until the Scope closes, and takes it again after every reconnect. Never through a
     * pooler, whose sessions are not those of this process. `key` is SQL (see AdvisoryLock), in which `$1` is `id`. Returns how
     * long it has been held without a break; None while it is not held, and from two seconds before the connection is replaced.
     */
    readonly holdLock: (
      key: string,
      id: string
    ) => Effect.Effect<Effect.Effect<Option.Option<Duration.Duration>>, never, Scope.Scope>
  }
>() {}

const subscriberCapacity = 1024
const probeEvery = Duration.seconds(30)
/** Time limit for the delivery of the test notification. */
const deliveryLimit = Duration.seconds(2)
/** Interval between delivery tests; the pooler may be replaced by one that forwards notifications. */
const retestDelay = Duration.minutes(5)

/** One wrapper per subscription: a function that subscribes twice is called twice. */
interface Subscriber {
  readonly receive: (event: ListenerEvent) => void
}
type Subscribers = Map<string, Set<Subscriber>>

/** A lock that this process wants to hold. */
interface WantedLock {
  readonly key: string
  readonly id: string
  /** When it was taken, on the monotonic clock. Undefined while it is not held. */
  since: number | undefined
}

/** The connection. It opens before it listens on the channels that were subscribed by then. */
interface Opened {
  readonly client: pg.Client
  isListening: boolean
}

/** Retry interval for a lock that an earlier session of this process still holds. */
const lockRetry = Duration.seconds(1)
/** Time between the end of a lock's claim and the planned end of its session. A heartbeat in between withdraws the claim. */
const claimNotice = Duration.seconds(2)

const connect = (url: Redacted.Redacted, config: typeof DatabaseConfig.Service) =>
  SingleConnection.open(url, config, `${config.applicationName} listener`)

/** For statements before the connection listens: without a limit, one that goes silent would leave the process deaf. */
const inTime =
  (config: typeof DatabaseConfig.Service) =>
  <A, E, R>(statements: Effect.Effect<A, E, R>) =>
    Effect.timeout(statements, config.connectTimeout)

const isPooled = (client: pg.Client) =>
  Effect.map(
    Effect.tryPromise(() => client.query<{ pid: number }>("select pg_catalog.pg_backend_pid() as pid")),
    ({ rows }) => Startup.isPooled(client, rows[0]?.pid ?? 0)
  )

/**
 * How notifications reach a process: on its own session, through a pooler that forwards them, or not at all, because of a pooler
 * or because DATABASE_LISTEN_URL leads to another database.
 */
export type Delivery = "direct" | "forwarded" | "none" | "elsewhere"

/** The URL to listen on: DATABASE_LISTEN_URL if set. */
const listenUrl = (url: Redacted.Redacted, config: typeof DatabaseConfig.Service) =>
  Option.getOrElse(config.listenUrl, () => url)

/**
 * How notifications over DATABASE_URL arrive on this connection. Behind a pooler in transaction mode, LISTEN succeeds but
 * nothing arrives.
 */
const deliveryOn = (client: pg.Client, url: Redacted.Redacted, config: typeof DatabaseConfig.Service) =>
  Effect.scoped(
    Effect.gen(function* () {
      const pooled = yield* inTime(config)(isPooled(client))
      if (!pooled && Option.isNone(config.listenUrl)) return "direct"
      const channel = `nightshift_probe_${randomBytes(6).toString("hex")}`
      const received = yield* Deferred.make<void>()
      const onNotification = (message: pg.Notification) => {
        if (message.channel === channel) Deferred.unsafeDone(received, Effect.void)
      }
      client.on("notification", onNotification)
      yield* Effect.addFinalizer(() => Effect.sync(() => client.off("notification", onNotification)))
      yield* inTime(config)(listenTo(client, channel))
      const other = yield* connect(url, config)
      yield* inTime(config)(Effect.tryPromise(() => other.query("select pg_catalog.pg_notify($1, '')", [channel])))
      const arrived = Option.isSome(yield* Effect.timeoutOption(Deferred.await(received), deliveryLimit))
      yield* inTime(config)(Effect.tryPromise(() => client.query(`unlisten ${pg.escapeIdentifier(channel)}`)))
      if (pooled) return arrived ? "forwarded" : "none"
      return arrived ? "direct" : "elsewhere"
    })
  )

/** How notifications can reach this process. */
export const delivery: Effect.Effect<Delivery, unknown, DatabaseUrl | DatabaseConfig> = Effect.gen(function* () {
  const config = yield* DatabaseConfig
  const url = yield* DatabaseUrl
  const open = connect(listenUrl(url, config), config)
  return yield* Effect.scoped(Effect.flatMap(open, (client) => deliveryOn(client, url, config)))
})

const listenTo = (client: pg.Client, channel: string) =>
  Effect.tryPromise(() => client.query(`listen ${pg.escapeIdentifier(channel)}`))

/** Does not wait for the server, which would delay the shutdown of the process if it does not answer. */
const unlock = (client: pg.Client, { id, key }: WantedLock) =>
  void client.query(`select pg_catalog.pg_advisory_unlock(${key})`, [id]).catch(() => {})

/** Tries a lock once. Waiting for it would keep notifications from arriving. */
const takeLock = (client: pg.Client, lock: WantedLock, locks: ReadonlySet<WantedLock>) =>
  Effect.gen(function* () {
    const { rows } = yield* Effect.tryPromise(() =>
      client.query<{ taken: boolean }>(`select pg_catalog.pg_try_advisory_lock(${lock.key}) as taken`, [lock.id])
    )
    if (rows[0]?.taken !== true) return
    // It may have been freed while it was taken.
    if (locks.has(lock)) lock.since = yield* steadyNow
    else unlock(client, lock)
  })

const takeLocks = (client: pg.Client, locks: ReadonlySet<WantedLock>) =>
  Effect.suspend(() =>
    Effect.forEach(
      [...locks].filter(({ since }) => since === undefined),
      (lock) => takeLock(client, lock, locks),
      { discard: true }
    )
  )

/** Detects a half-open socket, which reports no error until a query times out. */
const probe = (client: pg.Client) =>
  Effect.timeout(
    Effect.tryPromise(() => client.query("select 1")),
    "10 seconds"
  )

/** Why no notification arrives. */
const undelivered = {
  none: "the pooler in front of PostgreSQL does not forward notifications: jobs from other processes are found by polling (QUEUE_POLL). Set DATABASE_LISTEN_URL to an address that connects to PostgreSQL directly.",
  elsewhere:
    "DATABASE_LISTEN_URL leads to another database than DATABASE_URL: jobs from other processes are found by polling (QUEUE_POLL). Set it to a direct connection to the database of DATABASE_URL."
}

/** Opens the connection, listens and holds the locks until it breaks. Tries missing locks again after `wanted`. */
const listenOnce = (
  url: Redacted.Redacted,
  config: typeof DatabaseConfig.Service,
  subscribers: Subscribers,
  locks: ReadonlySet<WantedLock>,
  wanted: Effect.Effect<void>,
  current: Ref.Ref<Opened | undefined>,
  onOpen: Effect.Effect<void>
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const client = yield* connect(listenUrl(url, config), config)
      const broken = yield* Deferred.make<void, unknown>()
      client.on("error", (error) => Deferred.unsafeDone(broken, Effect.fail(error)))
      client.on("end", () => Deferred.unsafeDone(broken, Effect.fail("connection ended")))
      client.on("notification", ({ channel, payload }) => {
        for (const { receive } of subscribers.get(channel) ?? [])
          receive(ListenerEvent.Notified({ payload: payload ?? "" }))
      })
      const how = yield* deliveryOn(client, url, config)
      if (how === "none" || how === "elsewhere") {
        yield* Effect.logWarning(undelivered[how])
        return yield* Effect.zipRight(Effect.sleep(retestDelay), Effect.fail("testing delivery again"))
      }
      const opened: Opened = { client, isListening: false }
      yield* Effect.acquireRelease(Ref.set(current, opened), () => Ref.set(current, undefined))
      const endClaims = Effect.sync(() => {
        for (const lock of locks) lock.since = undefined
      })
      yield* Effect.addFinalizer(() => endClaims)
      if (how === "direct") {
        const kept = Effect.ignore(Effect.tryPromise(() => client.query(Startup.keepAlive)))
        yield* inTime(config)(Effect.zipRight(kept, takeLocks(client, locks)))
      }
      const channels = Effect.forEach([...subscribers.keys()], (channel) => listenTo(client, channel), {
        discard: true
      })
      yield* inTime(config)(channels)
      opened.isListening = true
      yield* onOpen
      // Replaced like pooled connections: the address may lead to another server after a failover.
      const lifetime = Effect.sleep(Duration.max(config.maxLifetime, Duration.seconds(1)))
      const probed = Effect.repeat(probe(client), Schedule.spaced(probeEvery))
      const locked = how === "direct" ? Effect.forever(Effect.zipRight(wanted, takeLocks(client, locks))) : Effect.never
      const open = Effect.raceFirst(Deferred.await(broken), probed)
      yield* open.pipe(Effect.raceFirst(lifetime), Effect.raceFirst(locked))
      // The locks stay taken until heartbeats have withdrawn their claims, so a process that is blocked later is not dead.
      if (locks.size > 0) yield* Effect.zipRight(endClaims, Effect.raceFirst(open, Effect.sleep(claimNotice)))
      return yield* Effect.fail("DATABASE_MAX_LIFETIME passed")
    })
  )

const make = Effect.gen(function* () {
  const config = yield* DatabaseConfig
  const url = yield* DatabaseUrl
  const subscribers: Subscribers = new Map()
  const locks = new Set<WantedLock>()
  const newLock = makeLatch()
  const wanted = Effect.suspend(() =>
    [...locks].every(({ since }) => since !== undefined) ? newLock.opened : newLock.openedWithin(lockRetry)
  )
  const clock = yield* Effect.clock
  const current = yield* Ref.make<Opened | undefined>(undefined)

  const publishResumed = Effect.sync(() => {
    for (const those of subscribers.values()) for (const { receive } of those) receive(ListenerEvent.Resumed())
  })
  yield* listenOnce(url, config, subscribers, locks, wanted, current, publishResumed).pipe(
    Effect.tapErrorCause((cause) => Effect.logDebug("listener connection lost, reconnecting", cause)),
    // A defect ends the connection, not the listener.
    Effect.sandbox,
    Effect.retry(
      Schedule.exponential("50 millis").pipe(
        Schedule.union(Schedule.spaced("2 seconds")),
        Schedule.jittered,
        Schedule.resetAfter("30 seconds")
      )
    ),
    Effect.forkScoped
  )

  const addSubscriber = (channel: string, subscriber: Subscriber) =>
    Effect.gen(function* () {
      subscribers.set(channel, (subscribers.get(channel) ?? new Set()).add(subscriber))
      const client = (yield* Ref.get(current))?.client
      // If there is no connection or it is breaking, the next one listens on all channels and sends Resumed.
      if (client !== undefined) {
        const resumed = Effect.sync(() => subscriber.receive(ListenerEvent.Resumed()))
        yield* Effect.ignore(Effect.zipRight(listenTo(client, channel), resumed))
      }
    })

  const removeSubscriber = (channel: string, subscriber: Subscriber) =>
    Effect.sync(() => {
      const others = subscribers.get(channel)
      others?.delete(subscriber)
      // No UNLISTEN: a connection has only a handful of channels, and a server that does not answer would delay the
      // shutdown of the process.
      if (others?.size === 0) subscribers.delete(channel)
    })

  const onMessage = (channel: string, receive: (event: ListenerEvent) => void) => {
    const subscriber = { receive }
    return Effect.acquireRelease(addSubscriber(channel, subscriber), () => removeSubscriber(channel, subscriber))
  }

  const freeLock = (lock: WantedLock) =>
    Effect.map(Ref.get(current), (opened) => {
      locks.delete(lock)
      if (lock.since !== undefined && opened !== undefined) unlock(opened.client, lock)
    })

  return Listener.of({
    onMessage,
    holdLock: (key, id) =>
      Effect.map(
        Effect.acquireRelease(
          Effect.sync(() => {
            const lock: WantedLock = { key, id, since: undefined }
            locks.add(lock)
            newLock.open()
            return lock
          }),
          freeLock
        ),
        // By the clock of this layer, which also timed the lock: callers may have another one.
        (lock) =>
          Effect.sync(() =>
            Option.map(Option.fromNullable(lock.since), (since) => Duration.millis(steadyMillis(clock) - since))
          )
      ),
    subscribe: (channel) =>
      Effect.gen(function* () {
        const queue = yield* Effect.acquireRelease(Queue.sliding<ListenerEvent>(subscriberCapacity), Queue.shutdown)
        yield* onMessage(channel, (event) => void Queue.unsafeOffer(queue, event))
        return queue
      }),
    connected: Effect.map(Ref.get(current), (opened) => opened?.isListening === true)
  })
})

export const layer: Layer.Layer<Listener, never, DatabaseUrl | DatabaseConfig> = Layer.scoped(Listener, make)

/** For databases and poolers without LISTEN: no notification ever arrives, and the process relies on polling. */
export const layerPolling: Layer.Layer<Listener> = Layer.succeed(Listener, {
  subscribe: () => Effect.acquireRelease(Queue.sliding<ListenerEvent>(1), Queue.shutdown),
  onMessage: () => Effect.void,
  connected: Effect.succeed(false),
  holdLock: () => Effect.succeed(Effect.succeedNone)
})

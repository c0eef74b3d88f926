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
  Redacted,
  Ref,
  Schedule,
  type Scope
} from "effect"
import pg from "pg"
import { DatabaseConfig } from "./DatabaseConfig.js"
import { DatabaseUrl, serversOf } from "./DatabaseUrl.js"
import * as ServerConnection from "./ServerConnection.js"

// Notifications arrive on a connection of their own, because the pool's come and go. That connection is opened, told to
// LISTEN on every channel somebody hears, watched until it breaks, and opened again. What was notified while it was
// down is lost, so every new connection tells all hearers that they may have missed something before it.

/** What a hearer of a channel receives. */
export type Heard = Data.TaggedEnum<{
  Notified: { readonly payload: string }
  /** From here on everything is heard; before it anything may have been said unheard. First of all, and at every return. */
  Resumed: {}
}>
export const Heard = Data.taggedEnum<Heard>()

/** Hears what other processes notify. A hint only: whoever needs to be sure also polls. */
export class Listener extends Context.Tag("nightshift/database/Listener")<
  Listener,
  {
    /** Everything notified on a channel from now until the Scope closes. A slow hearer loses the oldest first. */
    readonly hear: (channel: string) => Effect.Effect<Queue.Dequeue<Heard>, never, Scope.Scope>

    /** Whether notifications are arriving now. */
    readonly connected: Effect.Effect<boolean>
  }
>() {}

const hearerCapacity = 1024
const probeEvery = Duration.seconds(30)
/** How long a notification may take. */
const delivery = Duration.seconds(2)
/** A pooler may be replaced by one that passes notifications on. */
const askDeafAgainAfter = Duration.minutes(5)

type Hearers = Map<string, Set<Queue.Queue<Heard>>>

/** Opens a connection to the first server that takes it; closing the Scope closes it. */
const connect = (url: Redacted.Redacted, config: typeof DatabaseConfig.Service) =>
  Effect.firstSuccessOf(serversOf(Redacted.value(url)).urls.map((each) => connectTo(each, config)))

const connectTo = (connectionString: string, config: typeof DatabaseConfig.Service) =>
  Effect.acquireRelease(
    Effect.tryPromise(async () => {
      const client = new pg.Client({
        connectionString,
        application_name: `${config.applicationName} listener`,
        connectionTimeoutMillis: Duration.toMillis(config.connectTimeout),
        keepAlive: true,
        keepAliveInitialDelayMillis: 10_000
      })
      // It may break before anybody listens to it, and an error that nobody hears ends the process.
      client.on("error", () => {})
      await client.connect()
      return client
    }),
    (client) =>
      Effect.ignore(Effect.timeout(Effect.interruptible(Effect.tryPromise(() => client.end())), "1 second")).pipe(
        // A socket without an answer would keep the process from ending.
        Effect.zipRight(Effect.sync(() => ServerConnection.destroySocket(client)))
      )
  )

/** A pooler answers with process ids of its own. */
const isPooled = (client: pg.Client) =>
  Effect.map(
    Effect.tryPromise(() => client.query<{ pid: number }>("select pg_catalog.pg_backend_pid() as pid")),
    ({ rows }) => rows[0]?.pid !== (client as pg.Client & { readonly processID: number }).processID
  )

/** Whether this connection hears what another one says. Behind a pooler in transaction mode, LISTEN succeeds and hears nothing. */
const hears = (client: pg.Client, url: Redacted.Redacted, config: typeof DatabaseConfig.Service) =>
  Effect.scoped(
    Effect.gen(function* () {
      if (!(yield* isPooled(client))) return true
      const channel = `nightshift_probe_${randomBytes(6).toString("hex")}`
      const heard = yield* Deferred.make<void>()
      const onNotification = (message: pg.Notification) => {
        if (message.channel === channel) Deferred.unsafeDone(heard, Effect.void)
      }
      client.on("notification", onNotification)
      yield* Effect.addFinalizer(() => Effect.sync(() => client.off("notification", onNotification)))
      yield* listenTo(client, channel)
      const other = yield* connect(url, config)
      yield* Effect.tryPromise(() => other.query("select pg_catalog.pg_notify($1, '')", [channel]))
      const arrived = Option.isSome(yield* Effect.timeoutOption(Deferred.await(heard), delivery))
      yield* Effect.tryPromise(() => client.query(`unlisten ${pg.escapeIdentifier(channel)}`))
      return arrived
    })
  )

/** Where to listen: DATABASE_LISTEN_URL where it is set. */
const listenUrl = (url: Redacted.Redacted, config: typeof DatabaseConfig.Service) =>
  Option.getOrElse(config.listenUrl, () => url)

/** Whether notifications reach this process at all. */
export const arrive: Effect.Effect<boolean, unknown, DatabaseUrl | DatabaseConfig> = Effect.gen(function* () {
  const config = yield* DatabaseConfig
  const url = listenUrl(yield* DatabaseUrl, config)
  return yield* Effect.scoped(Effect.flatMap(connect(url, config), (client) => hears(client, url, config)))
})

const listenTo = (client: pg.Client, channel: string) =>
  Effect.tryPromise(() => client.query(`listen ${pg.escapeIdentifier(channel)}`))

/** A half-open socket reports nothing by itself: only a question that stays unanswered shows it. */
const probe = (client: pg.Client) =>
  Effect.timeout(
    Effect.tryPromise(() => client.query("select 1")),
    "10 seconds"
  )

const deaf =
  "notifications do not pass the pooler in front of PostgreSQL: new jobs of other processes are found by polling (QUEUE_POLL). Set DATABASE_LISTEN_URL to an address that leads to PostgreSQL directly."

/** One life of the connection, from its opening until it breaks. */
const listenOnce = (
  url: Redacted.Redacted,
  config: typeof DatabaseConfig.Service,
  hearers: Hearers,
  current: Ref.Ref<pg.Client | undefined>,
  onOpen: Effect.Effect<void>
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const client = yield* connect(url, config)
      const broken = yield* Deferred.make<void, unknown>()
      client.on("error", (error) => Deferred.unsafeDone(broken, Effect.fail(error)))
      client.on("end", () => Deferred.unsafeDone(broken, Effect.fail("connection ended")))
      client.on("notification", ({ channel, payload }) => {
        for (const queue of hearers.get(channel) ?? [])
          Queue.unsafeOffer(queue, Heard.Notified({ payload: payload ?? "" }))
      })
      if (!(yield* hears(client, url, config))) {
        yield* Effect.logWarning(deaf)
        return yield* Effect.zipRight(Effect.sleep(askDeafAgainAfter), Effect.fail("asking again"))
      }
      yield* Effect.acquireRelease(Ref.set(current, client), () => Ref.set(current, undefined))
      yield* Effect.forEach([...hearers.keys()], (channel) => listenTo(client, channel), { discard: true })
      yield* onOpen
      yield* Effect.raceFirst(Deferred.await(broken), Effect.repeat(probe(client), Schedule.spaced(probeEvery)))
    })
  )

const make = Effect.gen(function* () {
  const config = yield* DatabaseConfig
  const url = listenUrl(yield* DatabaseUrl, config)
  const hearers: Hearers = new Map()
  const current = yield* Ref.make<pg.Client | undefined>(undefined)

  const tellResumed = Effect.sync(() => {
    for (const queues of hearers.values()) for (const queue of queues) Queue.unsafeOffer(queue, Heard.Resumed())
  })
  yield* listenOnce(url, config, hearers, current, tellResumed).pipe(
    Effect.tapErrorCause((cause) => Effect.logDebug("listener connection lost, opening another", cause)),
    // Defects, too, end a connection and not the listener.
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

  const addHearer = (channel: string) =>
    Effect.gen(function* () {
      const queue = yield* Queue.sliding<Heard>(hearerCapacity)
      hearers.set(channel, (hearers.get(channel) ?? new Set()).add(queue))
      const client = yield* Ref.get(current)
      // Without a connection, or with one that breaks just now, the next one listens to every channel and says so.
      if (client !== undefined) {
        yield* Effect.ignore(Effect.zipRight(listenTo(client, channel), Queue.offer(queue, Heard.Resumed())))
      }
      return queue
    })

  const removeHearer = (channel: string, queue: Queue.Queue<Heard>) =>
    Effect.gen(function* () {
      yield* Queue.shutdown(queue)
      const others = hearers.get(channel)
      others?.delete(queue)
      // No UNLISTEN: a connection hears a handful of channels for as long as it lives, and a server that does not answer would
      // keep a process that ends.
      if (others?.size === 0) hearers.delete(channel)
    })

  return Listener.of({
    hear: (channel) => Effect.acquireRelease(addHearer(channel), (queue) => removeHearer(channel, queue)),
    connected: Effect.map(Ref.get(current), (client) => client !== undefined)
  })
})

/** Listens on a connection of its own. */
export const layer: Layer.Layer<Listener, never, DatabaseUrl | DatabaseConfig> = Layer.scoped(Listener, make)

/** For databases and poolers that cannot LISTEN: nothing is ever heard, and polling does the work. */
export const layerDeaf: Layer.Layer<Listener> = Layer.succeed(Listener, {
  hear: () => Effect.acquireRelease(Queue.sliding<Heard>(1), Queue.shutdown),
  connected: Effect.succeed(false)
})

import { Duration, Effect, Fiber, FiberRef, Option, Redacted, Runtime, Schedule, type Scope } from "effect"
import pg from "pg"
import * as DurationText from "../core/DurationText.js"
import { repeated } from "../core/Loop.js"
import type { DatabaseConfig } from "./DatabaseConfig.js"
import { ServerUnresponsive } from "./DatabaseError.js"
import { address, serversOf } from "./DatabaseUrl.js"
import { Outage } from "./Outage.js"
import * as ServerConnection from "./ServerConnection.js"
import * as Startup from "./Startup.js"
import { type PreparedNames, preparing, type StatementListener } from "./Statements.js"
import type { WriteHealth } from "./WriteHealth.js"

// There are two pools. Nightshift's own statements (heartbeats, claims, finalization, leadership, HTTP) use one;
// handlers and the program use the other. Handlers that hold a transaction each can use up their pool without blocking
// heartbeats. Session settings that a handler changes also cannot affect Nightshift's statements.

/** True in fibers that run a handler; their statements use the program's pool. */
export const inHandler: FiberRef.FiberRef<boolean> = FiberRef.unsafeMake(false)

/** Usage of a pool's connections. */
export interface PoolUse {
  readonly busy: number
  readonly idle: number
  /** Statements that wait for a connection. */
  readonly waiting: number
}

export interface Pools {
  /** The pool for Nightshift's statements. Fibers that run a handler are redirected to the program's pool. */
  readonly own: pg.Pool
  /** The pool for handlers and the program's own statements. */
  readonly program: pg.Pool
  readonly use: () => PoolUse
  readonly programUse: () => PoolUse
  /** Maximum number of connections, with the one for notifications. Undefined if a pooler is in between. */
  readonly maxConnections: () => number | undefined
  /** Number of connections closed because the server did not answer in time. */
  readonly unanswered: () => number
  /**
   * Prepares for shutdown: Nightshift's statements get only DATABASE_CONNECT_TIMEOUT from now on. After `workEnded`
   * completes, if the server does not answer for `shutdownTimeout`, all connections are closed and later statements fail
   * at once.
   */
  readonly beginShutdown: (workEnded: Effect.Effect<void>) => Effect.Effect<void>
  /** Restores the normal timeouts, for a program that keeps running. Concurrent shutdowns end with the last one. */
  readonly cancelShutdown: Effect.Effect<void>
}

/** How long a process that is shutting down waits for a response from the server. One limit for all remaining writes. */
const shutdownTimeout = Duration.seconds(3)
const askEvery = Duration.millis(500)

/** The connection of Listener. */
const listening = 1

const lookEvery = Duration.seconds(1)
const sayAtMostEvery = Duration.toMillis("1 minute")

const isInHandler = () =>
  Option.match(Fiber.getCurrentFiber(), {
    onNone: () => false,
    onSome: (fiber) => fiber.getFiberRef(inHandler)
  })

/**
 * Wraps a pool so that `connect` picks the pool by caller. `query`, which cancels statements, always uses `own`:
 * waiting for a connection that only the cancellation frees would deadlock.
 */
const routed = (pool: pg.Pool, own: pg.Pool, choose: () => pg.Pool): pg.Pool =>
  Object.assign(Object.create(pool) as pg.Pool, {
    connect: (...args: []) => choose().connect(...args),
    query: own.query.bind(own)
  })

const useOf = (pool: pg.Pool): PoolUse => ({
  busy: pool.totalCount - pool.idleCount,
  idle: pool.idleCount,
  waiting: pool.waitingCount
})

const otherServer = () => new Error("connection closed: the address of PostgreSQL now reaches a different server")

const poolOf = (
  config: typeof DatabaseConfig.Service,
  size: number,
  shared: ServerConnection.Shared
): Effect.Effect<pg.Pool, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const pool = new pg.Pool({
        max: size,
        connectionTimeoutMillis: Duration.toMillis(config.connectTimeout),
        maxLifetimeSeconds: Math.max(1, Math.round(Duration.toSeconds(config.maxLifetime))),
        application_name: config.applicationName,
        keepAlive: true,
        keepAliveInitialDelayMillis: 10_000,
        Client: ServerConnection.clientClass(shared)
      })
      // The pool replaces a broken idle connection on next use. Without a listener, the `error` event would end the
      // process.
      pool.on("error", () => {})
      pool.on("acquire", (client) => void Object.assign(client, { idle: false }))
      pool.on("release", (_, client) => {
        const connection = Object.assign(client, { idle: true }) as pg.PoolClient & ServerConnection.ServerConnection
        if (connection.outdated) connection.disconnect(otherServer())
      })
      return pool
    }),
    (pool) =>
      Effect.timeoutOption(Effect.interruptible(Effect.promise(() => end(pool))), "2 seconds").pipe(
        // A socket that waits for an answer would keep the process alive.
        Effect.zipRight(Effect.sync(() => closeAll(shared.connections, "the process is stopping")))
      )
  )

/** Ends a pool. The driver leaves statements that wait for a connection without an answer, and its types do not expose them. */
const end = (pool: pg.Pool): Promise<void> => {
  const ended = pool.end()
  const { _pendingQueue } = pool as unknown as {
    _pendingQueue: Array<{ callback: (error: Error | undefined) => void }>
  }
  for (const { callback } of _pendingQueue.splice(0)) pool.connect(callback)
  return ended
}

const closeAll = (connections: Iterable<ServerConnection.ServerConnection>, why: string) => {
  for (const connection of [...connections]) connection.disconnect(new Error(`connection closed: ${why}`))
}

/**
 * Closes connections that have waited for an answer longer than the limit, and idle connections that have received
 * nothing since then either.
 */
const closeUnanswered = (
  connections: ReadonlySet<ServerConnection.ServerConnection>,
  limit: Duration.Duration
): number => {
  const now = performance.now()
  const stalled = [...connections].filter(
    ({ hasOwnTimeout, unansweredSince }) =>
      !hasOwnTimeout && unansweredSince !== undefined && now - unansweredSince > Duration.toMillis(limit)
  )
  if (stalled.length === 0) return 0
  const since = Math.min(...stalled.map(({ unansweredSince }) => unansweredSince ?? now))
  const silent = [...connections].filter(({ answeredAt, idle }) => idle && answeredAt < since)
  closeAll(new Set([...stalled, ...silent]), `PostgreSQL did not answer within ${DurationText.format(limit)}`)
  return stalled.length
}

const prepared = (config: typeof DatabaseConfig.Service, warn: (text: string) => void): PreparedNames =>
  preparing(config.prepare, () =>
    warn(
      "the connection to PostgreSQL does not support prepared statements, as with PgBouncer before 1.21 in transaction mode: continuing without them. Set DATABASE_PREPARE=false to start without them."
    )
  )

/** Completes when the server does not answer a trivial statement within the limit. An error is an answer. */
const untilSilent = (pool: pg.Pool): Effect.Effect<void> =>
  Effect.async<boolean>((resume) => {
    pool.query("select 1", () => resume(Effect.succeed(true)))
  }).pipe(
    Effect.timeoutOption(shutdownTimeout),
    Effect.repeat({ until: Option.isNone, schedule: Schedule.spaced(askEvery) }),
    Effect.asVoid
  )

/** Opens both pools. They connect on first use. */
export const open = (
  url: Redacted.Redacted,
  config: typeof DatabaseConfig.Service,
  listener: StatementListener,
  writes: WriteHealth,
  /** Whether the address may lead to several servers at a time. */
  isShared = false
): Effect.Effect<Pools, never, Scope.Scope> =>
  Effect.gen(function* () {
    const runtime = yield* Effect.runtime<never>()
    const scope = yield* Effect.scope
    const log = (effect: Effect.Effect<void>) => void Runtime.runFork(runtime, effect)
    const warn = (text: string) => log(Effect.logWarning(text))
    const names = prepared(config, warn)
    const connections = {
      ours: new Set<ServerConnection.ServerConnection>(),
      program: new Set<ServerConnection.ServerConnection>()
    }
    const startup = Startup.make(url, config, (server, restarted) => {
      if (isShared && !restarted) return
      if (restarted) log(Effect.logInfo(`PostgreSQL was restarted (${server}): closing older connections`))
      else warn(`the address of PostgreSQL now reaches a different server (${server}): closing older connections`)
      for (const connection of [...connections.ours, ...connections.program]) {
        if (connection.idle) connection.disconnect(otherServer())
        else connection.outdated = true
      }
    })
    const outage = new Outage({
      address: address(url),
      servers: serversOf(Redacted.value(url)).urls.length,
      log: (level, text) => log(level === "error" ? Effect.logError(text) : Effect.logInfo(text))
    })
    let refusal: ServerUnresponsive | undefined
    const sharedBy = (purpose: "ours" | "program"): ServerConnection.Shared => ({
      config: () => startup.config(purpose),
      onConnectFailed: (error, options) => {
        if (startup.failed(error, options) === "unavailable" && refusal === undefined) outage.failed(error)
      },
      check: async (client, options) => {
        const fault = await startup.check(client, options)
        if (fault === undefined) outage.opened()
        else outage.failed(fault)
        return fault
      },
      listener,
      // The program's statements do not count: they may fail for other reasons, such as a tablespace that only they use.
      onAnswer: purpose === "ours" ? (text, error) => writes.answered(text, error) : () => {},
      names,
      connections: connections[purpose],
      refusal: () => refusal
    })
    const own = yield* poolOf(config, config.pool, sharedBy("ours"))
    const program = yield* poolOf(config, config.handlerPool, sharedBy("program"))

    // The server cancels a statement at its timeout; allow the connect timeout for its answer to arrive.
    const answerTimeout = Duration.sum(config.statementTimeout, config.connectTimeout)
    let ownAnswerTimeout = answerTimeout
    const watchers: Array<Fiber.RuntimeFiber<void>> = []
    let shutdowns = 0
    let unanswered = 0
    let said = Number.NEGATIVE_INFINITY
    const closeUnresponsive = Effect.suspend(() => {
      const closed =
        closeUnanswered(connections.ours, ownAnswerTimeout) + closeUnanswered(connections.program, answerTimeout)
      if (closed === 0) return Effect.void
      unanswered += closed
      const now = performance.now()
      if (now - said < sayAtMostEvery) return Effect.void
      said = now
      return Effect.logWarning(
        `PostgreSQL did not answer ${closed} statements within ${DurationText.format(answerTimeout)}: closed their connections`
      )
    })
    yield* Effect.forkScoped(
      repeated({ name: "connections", schedule: Schedule.spaced(lookEvery), runAtStart: true, run: closeUnresponsive })
    )

    return {
      own: routed(own, own, () => (isInHandler() ? program : own)),
      program: routed(program, own, () => program),
      use: () => useOf(own),
      programUse: () => useOf(program),
      maxConnections: () =>
        [...connections.ours].some(({ pooled }) => pooled)
          ? undefined
          : own.options.max + program.options.max + listening,
      unanswered: () => unanswered,
      beginShutdown: (workEnded) =>
        Effect.suspend(() => {
          ownAnswerTimeout = config.connectTimeout
          shutdowns += 1
          const watch = workEnded.pipe(
            Effect.zipRight(untilSilent(own)),
            Effect.zipRight(
              Effect.logWarning(
                `PostgreSQL has not answered for ${DurationText.format(shutdownTimeout)} during the shutdown: closing all connections`
              )
            ),
            Effect.andThen(() => {
              refusal = new ServerUnresponsive()
              // Each has a separate error: a connection marks the error of a write that may have been committed.
              for (const connection of [...connections.ours, ...connections.program])
                connection.disconnect(new ServerUnresponsive())
            }),
            Effect.interruptible,
            Effect.forkIn(scope)
          )
          return Effect.map(watch, (fiber) => void watchers.push(fiber))
        }),
      cancelShutdown: Effect.suspend(() => {
        shutdowns -= 1
        if (shutdowns > 0) return Effect.void
        ownAnswerTimeout = answerTimeout
        refusal = undefined
        return Fiber.interruptAll(watchers.splice(0))
      })
    }
  })

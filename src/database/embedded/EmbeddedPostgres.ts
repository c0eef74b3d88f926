import { randomBytes } from "node:crypto"
import { readFile, realpath } from "node:fs/promises"
import { createServer } from "node:net"
import { join, resolve } from "node:path"
import { Context, Deferred, Effect, Layer, Option, Redacted, type Scope } from "effect"
import * as DataDirectory from "./DataDirectory.js"
import * as DirectoryLock from "./DirectoryLock.js"
import { type EmbeddedPostgresError, ServerEnded, ServerStartFailed } from "./EmbeddedPostgresError.js"
import { isServerOf } from "./OsProcess.js"
import * as PostgresBinaries from "./PostgresBinaries.js"
import * as PostgresServer from "./PostgresServer.js"
import { canEnter, choose, fitsSocket, scratchDirectory } from "./ServerAccount.js"
import * as ServerLog from "./ServerLog.js"

export type { EmbeddedPostgresError } from "./EmbeddedPostgresError.js"

/** An embedded PostgreSQL server. */
export class EmbeddedPostgres extends Context.Tag("nightshift/database/EmbeddedPostgres")<
  EmbeddedPostgres,
  {
    /** Connection URL, including the password. */
    readonly url: Redacted.Redacted
    readonly directory: string
    readonly port: number

    /** Directory of the Unix socket. Connections through it also need the password. */
    readonly socketDirectory: string
    readonly pid: number

    /** Completes when the server exits unexpectedly; never when closing the Scope stops it. */
    readonly ended: Effect.Effect<ServerEnded>
  }
>() {}

const urlOf = (password: Redacted.Redacted, port: number): Redacted.Redacted =>
  Redacted.make(`postgres://postgres:${Redacted.value(password)}@127.0.0.1:${port}/postgres`)

/** A port of this machine that no program listens on. */
export const freePort: Effect.Effect<number> = Effect.async((resume) => {
  const server = createServer()
  server.on("error", () => resume(Effect.succeed(5432)))
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 5432
    server.close(() => resume(Effect.succeed(port)))
  })
})

const portAttempts = 10

/**
 * Tries the preferred port, then free ones. Another process may take a free port before the server binds it, so retry.
 */
const startOnSomePort = (cluster: PostgresServer.Cluster, preferred: Option.Option<number>, socketDirectory: string) =>
  Effect.gen(function* () {
    for (let attempt = 0; attempt < portAttempts; attempt++) {
      const port = attempt === 0 && Option.isSome(preferred) ? preferred.value : yield* freePort
      const started = yield* PostgresServer.start(cluster, port, socketDirectory).pipe(
        Effect.map((server) => Option.some({ port, server })),
        Effect.catchTag("PortTaken", () => Effect.succeedNone)
      )
      if (Option.isSome(started)) return started.value
    }
    return yield* new ServerStartFailed({ directory: cluster.directory, detail: "no free port on 127.0.0.1" })
  })

const serve = (
  cluster: PostgresServer.Cluster,
  password: Redacted.Redacted,
  preferred: Option.Option<number>,
  socketDirectory: string
): Effect.Effect<
  Context.Tag.Service<EmbeddedPostgres> & { readonly server: PostgresServer.PostgresServer },
  EmbeddedPostgresError,
  Scope.Scope
> =>
  Effect.gen(function* () {
    const { directory } = cluster
    const ended = yield* Deferred.make<ServerEnded>()
    const { port, server } = yield* startOnSomePort(cluster, preferred, socketDirectory)
    const { pid } = server
    // Interrupted when the Scope closes, before the server is stopped, so a regular stop is not reported.
    yield* server.exited.pipe(
      Effect.flatMap((detail) => Deferred.succeed(ended, new ServerEnded({ directory, pid, detail }))),
      Effect.forkScoped
    )
    return { url: urlOf(password, port), directory, port, socketDirectory, pid, ended: Deferred.await(ended), server }
  })

const lastPort = (path: string): Effect.Effect<Option.Option<number>> =>
  Effect.tryPromise(() => readFile(DataDirectory.layout(path).port, "utf8")).pipe(
    Effect.map(Number),
    Effect.filterOrFail((port) => Number.isInteger(port) && port > 1023 && port < 65536),
    Effect.option
  )

const makeDurable = (directory: string, onLaunch: Effect.Effect<void>) =>
  Effect.gen(function* () {
    const taken = yield* DataDirectory.take(directory)
    const { account, lock, owner, password, path } = taken
    const { data, log: logFile, port: portFile, run } = DataDirectory.layout(path)
    const binaries = yield* PostgresBinaries.find(account)
    const log = yield* ServerLog.make(path, logFile, owner)
    const cluster: PostgresServer.Cluster = {
      binaries,
      account,
      profile: PostgresServer.durable,
      directory: path,
      data,
      removeWhenOrphaned: Option.none(),
      onOutput: log.write,
      onLaunch
    }
    yield* DataDirectory.createCluster(taken, (unfinished) => PostgresServer.initialize(cluster, unfinished, password))
    yield* PostgresServer.checkVersion(cluster)
    yield* DataDirectory.clearOldServer(path)
    yield* DataDirectory.makeForServer(run, account)
    const near = fitsSocket(run) && (yield* canEnter(account, run))
    const socketDirectory = near ? run : yield* scratchDirectory(account)
    const { server, ...service } = yield* serve(
      near ? cluster : { ...cluster, removeWhenOrphaned: Option.some(socketDirectory) },
      password,
      yield* lastPort(path),
      socketDirectory
    )
    yield* DataDirectory.writeWhole(portFile, `${service.port}\n`, owner)
    // Two servers on one directory would corrupt it. Stop this one; `ended` reports it.
    yield* Effect.forkScoped(Effect.zipRight(lock.lost, server.signal("SIGQUIT")))
    return service
  })

const makeThrowaway = Effect.gen(function* () {
  const account = yield* choose
  const binaries = yield* PostgresBinaries.find(account)
  const directory = yield* scratchDirectory(account)
  const data = join(directory, "data")
  const password = Redacted.make(randomBytes(24).toString("base64url"))
  const cluster: PostgresServer.Cluster = {
    binaries,
    account,
    profile: PostgresServer.throwaway,
    directory,
    data,
    removeWhenOrphaned: Option.some(directory),
    onOutput: () => {},
    onLaunch: Effect.void
  }
  yield* DataDirectory.makeForServer(data, account)
  yield* PostgresServer.initialize(cluster, data, password)
  const { server: _, ...service } = yield* serve(cluster, password, Option.none(), directory)
  return service
})

/** A server that keeps its data in the directory and locks it against other processes (`--embedded`). */
export const layerDurable = (directory: string): Layer.Layer<EmbeddedPostgres, EmbeddedPostgresError> =>
  Layer.scoped(EmbeddedPostgres, makeDurable(directory, Effect.void))

/**
 * Launches a durable server and returns, so that this process can load modules while the server starts. The layer waits
 * until the server is ready; closing the Scope stops the server.
 */
export const launchDurable = (
  directory: string
): Effect.Effect<Layer.Layer<EmbeddedPostgres, EmbeddedPostgresError>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const launched = yield* Deferred.make<void>()
    const ready = yield* Deferred.make<Context.Tag.Service<EmbeddedPostgres>, EmbeddedPostgresError>()
    // The fiber owns the server: interrupting the fiber during the start releases everything it has acquired.
    yield* makeDurable(directory, Effect.asVoid(Deferred.succeed(launched, undefined))).pipe(
      Effect.intoDeferred(ready),
      Effect.zipRight(Effect.never),
      Effect.scoped,
      Effect.forkScoped
    )
    // The layer also reports a start that fails before the launch.
    yield* Effect.raceFirst(Deferred.await(launched), Effect.exit(Deferred.await(ready)))
    return Layer.effect(EmbeddedPostgres, Deferred.await(ready))
  })

/** A fast server for tests that leaves no data behind. */
export const layerThrowaway: Layer.Layer<EmbeddedPostgres, EmbeddedPostgresError> = Layer.scoped(
  EmbeddedPostgres,
  makeThrowaway
)

/** Returns the URL of the server that another process runs on this directory, if there is one. */
export const running = (directory: string): Effect.Effect<Option.Option<Redacted.Redacted>> =>
  Effect.gen(function* () {
    const path = yield* Effect.tryPromise(() => realpath(resolve(directory)))
    const { data, password: file } = DataDirectory.layout(path)
    if (!(yield* DirectoryLock.isHeld(path))) return Option.none()
    const notice = yield* PostgresServer.readNotice(data)
    // The pid file may be left over from a dead server while the holder is still starting its own.
    if (Option.isNone(notice) || !(yield* isServerOf(notice.value.pid, data))) return Option.none()
    const password = yield* Effect.tryPromise(() => readFile(file, "utf8"))
    return Option.some(urlOf(Redacted.make(password.trim()), notice.value.port))
  }).pipe(Effect.orElseSucceed(() => Option.none()))

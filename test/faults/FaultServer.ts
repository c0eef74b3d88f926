import { execFileSync } from "node:child_process"
import { randomBytes } from "node:crypto"
import { appendFile } from "node:fs/promises"
import { createServer } from "node:net"
import { join } from "node:path"
import { Effect, Exit, Option, Redacted, Scope } from "effect"
import * as DataDirectory from "../../src/database/embedded/DataDirectory.js"
import * as PostgresBinaries from "../../src/database/embedded/PostgresBinaries.js"
import * as PostgresServer from "../../src/database/embedded/PostgresServer.js"
import { choose, scratchDirectory } from "../../src/database/embedded/ServerAccount.js"
import * as ProcessFamily from "../support/ProcessFamily.js"

/** A separate PostgreSQL that a case may stop, freeze and reconfigure. */
export interface FaultServer {
  readonly url: Redacted.Redacted
  /** Pid of the running postmaster. */
  readonly pid: () => number
  readonly signal: (signal: NodeJS.Signals) => Effect.Effect<void>
  /** Waits until the server has ended, after a signal that ends it. */
  readonly ended: Effect.Effect<void>
  /** Starts it again at the same address. It must have ended. */
  readonly start: Effect.Effect<void, unknown>
  /** Stops every process of the server until the Scope closes. */
  readonly frozen: Effect.Effect<void, never, Scope.Scope>
  /** The server's log so far. */
  readonly printed: () => string
  /** Stops the server for a moment and starts a streaming replica of it, which follows it until the Scope closes. */
  readonly replica: Effect.Effect<FaultServer, unknown, Scope.Scope>
  /** Appends lines to postgresql.conf. Effective at the next start or reload (SIGHUP). */
  readonly configure: (...lines: ReadonlyArray<string>) => Effect.Effect<void>
}

// Commits are written to the WAL before they are acknowledged, as in production. Without fsync only a crash of the
// machine could lose them, and no case crashes the machine.
const profile: PostgresServer.ServerProfile = {
  initialize: ["--no-data-checksums", "--no-sync"],
  settings: { fsync: "off", shared_buffers: "32MB" },
  stop: PostgresServer.throwaway.stop
}

const freePort = Effect.async<number>((resume) => {
  const probe = createServer().listen(0, "127.0.0.1", () => {
    const address = probe.address()
    probe.close(() => resume(Effect.succeed(typeof address === "object" ? (address?.port ?? 0) : 0)))
  })
})

/** Copies the data of a stopped server with its owner and permissions. The copy follows `primary_conninfo`. */
const copyForReplica = (from: string, to: string) =>
  Effect.sync(() => {
    execFileSync("cp", ["-a", `${from}/.`, to])
    execFileSync("cp", ["-a", join(to, "PG_VERSION"), join(to, "standby.signal")])
  })

interface Options {
  /** Where the data goes. [a temporary folder] */
  readonly directory?: string
  readonly settings?: Readonly<Record<string, string>>
  /** A stopped server whose data is copied. */
  readonly copyOf?: { readonly data: string; readonly password: Redacted.Redacted }
}

/** Starts a server. */
export const make = (options: Options = {}): Effect.Effect<FaultServer, unknown, Scope.Scope> =>
  Effect.gen(function* () {
    const account = yield* choose
    const binaries = yield* PostgresBinaries.find(account)
    const scratch = yield* scratchDirectory(account)
    const data = join(options.directory ?? scratch, "data")
    let printed = ""
    const password = options.copyOf?.password ?? Redacted.make(randomBytes(12).toString("hex"))
    const cluster: PostgresServer.Cluster = {
      binaries,
      account,
      profile: { ...profile, settings: { ...profile.settings, ...options.settings } },
      directory: scratch,
      data,
      removeWhenOrphaned: Option.some(scratch),
      onOutput: (chunk) => {
        printed += chunk
      },
      onLaunch: Effect.void
    }
    yield* DataDirectory.makeForServer(data, account)
    if (options.copyOf === undefined) yield* PostgresServer.initialize(cluster, data, password)
    else yield* copyForReplica(options.copyOf.data, data)
    const port = yield* freePort
    let running: { readonly server: PostgresServer.PostgresServer; readonly scope: Scope.CloseableScope } | undefined
    const start = Effect.gen(function* () {
      const scope = yield* Scope.make()
      running = { server: yield* Scope.extend(PostgresServer.start(cluster, port, scratch), scope), scope }
    })
    const stop = Effect.suspend(() => (running === undefined ? Effect.void : Scope.close(running.scope, Exit.void)))
    yield* start
    yield* Effect.addFinalizer(() => stop)
    const pid = () => running?.server.pid ?? 0
    const toAll = (pids: ReadonlyArray<number>, signal: NodeJS.Signals) =>
      Effect.sync(() => {
        for (const one of pids) {
          try {
            process.kill(one, signal)
          } catch {
            // A backend that ended meanwhile.
          }
        }
      })
    const interrupted = Effect.sync(() => void process.kill(pid(), "SIGINT"))
    const ended = Effect.suspend(() => Effect.asVoid(running?.server.exited ?? Effect.void))
    const conninfo = `host=127.0.0.1 port=${port} user=postgres password=${Redacted.value(password)}`
    const replica: FaultServer["replica"] = Effect.gen(function* () {
      yield* Effect.zipRight(interrupted, ended)
      const copied = yield* make({ copyOf: { data, password }, settings: { primary_conninfo: conninfo } })
      yield* Effect.zipRight(stop, start)
      return copied
    })
    return {
      url: Redacted.make(`postgres://postgres:${Redacted.value(password)}@127.0.0.1:${port}/postgres`),
      replica,
      pid,
      printed: () => printed,
      signal: (signal) => Effect.sync(() => void process.kill(pid(), signal)),
      ended,
      start: Effect.zipRight(stop, start),
      frozen: Effect.asVoid(
        Effect.acquireRelease(
          Effect.gen(function* () {
            const pids = [pid(), ...(yield* ProcessFamily.below(pid()))]
            yield* toAll(pids, "SIGSTOP")
            return pids
          }),
          // The postmaster last: until it runs it reaps no backend, so pids are not reused.
          (pids) => toAll([...pids].reverse(), "SIGCONT")
        )
      ),
      configure: (...lines) =>
        Effect.promise(() => appendFile(join(data, "postgresql.conf"), `\n${lines.join("\n")}\n`))
    }
  })

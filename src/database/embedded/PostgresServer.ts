import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { Data, Duration, Effect, Option, Redacted, Schedule, type Scope } from "effect"
import {
  BinariesUnusable,
  DataVersionMismatch,
  type DirectoryUnusable,
  directoryUnusable,
  InitializationFailed,
  ServerAccountMissing,
  ServerStartFailed
} from "./EmbeddedPostgresError.js"
import type { PostgresBinaries } from "./PostgresBinaries.js"
import { canEnter, type ServerAccount } from "./ServerAccount.js"
import * as SupervisedProcess from "./SupervisedProcess.js"

/** Settings of a server: durable for production, or throwaway for tests. */
export interface ServerProfile {
  readonly initialize: ReadonlyArray<string>
  readonly settings: Readonly<Record<string, string>>
  readonly stop: ReadonlyArray<readonly [NodeJS.Signals, Duration.DurationInput]>
}

/** No acknowledged write is lost. Other settings are PostgreSQL's defaults and can be changed in `postgresql.conf`. */
export const durable: ServerProfile = {
  initialize: ["--data-checksums", "-c", "shared_buffers=128MB", "-c", "max_connections=100"],
  settings: {},
  // First a fast shutdown, which ends sessions and writes a checkpoint; then an immediate one, which needs crash
  // recovery at the next start but loses no data.
  stop: [
    ["SIGINT", "30 seconds"],
    ["SIGQUIT", "6 seconds"],
    ["SIGKILL", "5 seconds"]
  ]
}

/** Fast, but data may be lost in a crash of the machine. */
export const throwaway: ServerProfile = {
  // The password is random, so iterations do not protect it. They take half of the CPU time of a client that connects.
  initialize: ["--no-data-checksums", "--no-sync", "-c", "scram_iterations=1"],
  settings: {
    fsync: "off",
    synchronous_commit: "off",
    full_page_writes: "off",
    max_connections: "200",
    shared_buffers: "64MB"
  },
  stop: [
    ["SIGQUIT", "3 seconds"],
    ["SIGKILL", "5 seconds"]
  ]
}

export interface Cluster {
  readonly binaries: PostgresBinaries
  readonly account: Option.Option<ServerAccount>
  readonly profile: ServerProfile

  /** The directory named in error messages. */
  readonly directory: string
  readonly data: string
  readonly removeWhenOrphaned: Option.Option<string>
  readonly onOutput: (chunk: Buffer) => void

  /** Runs when the server's process exists, before it is ready. */
  readonly onLaunch: Effect.Effect<void>
}

export interface PostgresServer {
  /** Pid of the postmaster. */
  readonly pid: number

  /** Completes with the last lines of output when the server exits for any reason. */
  readonly exited: Effect.Effect<string>
  readonly signal: (signal: NodeJS.Signals) => Effect.Effect<void>
}

export class PortTaken extends Data.TaggedError("PortTaken")<{ readonly port: number }> {}

const spawn = (cluster: Cluster, data: string, program: string, args: ReadonlyArray<string>, input: string) =>
  Effect.gen(function* () {
    const { account, binaries, profile, onOutput, removeWhenOrphaned } = cluster
    // The data may be in a directory that the server's user cannot reach, such as /root. The child enters the working
    // directory before it changes the user, and /proc/self/cwd then gives access to it.
    const reachable = Option.isNone(account) || process.platform !== "linux" || (yield* canEnter(account, data))
    return yield* SupervisedProcess.spawn({
      command: [join(binaries.directory, "bin", program), "-D", reachable ? data : "/proc/self/cwd", ...args],
      account,
      workingDirectory: reachable ? "/" : data,
      environment: { LC_ALL: "C", TZ: "UTC", LD_LIBRARY_PATH: join(binaries.directory, "lib") },
      input,
      stop: profile.stop,
      removeWhenOrphaned,
      onOutput
    })
  })

const spaceIsLeft = (directory: string, output: string): Effect.Effect<void, DirectoryUnusable> =>
  output.includes("No space left on device") ? directoryUnusable(directory, "ENOSPC", "") : Effect.void

/** Creates a cluster whose only user is `postgres`. All connections, including local ones, need the password. */
export const initialize = Effect.fn("PostgresServer.initialize")(function* (
  cluster: Cluster,
  data: string,
  password: Redacted.Redacted
): Effect.fn.Return<void, InitializationFailed | DirectoryUnusable | BinariesUnusable | ServerAccountMissing> {
  const args = ["--username=postgres", "--auth=scram-sha-256", "--pwfile=/dev/stdin", "--encoding=UTF8", "--locale=C"]
  const { code, output } = yield* Effect.scoped(
    Effect.gen(function* () {
      const initdb = yield* spawn(
        cluster,
        data,
        "initdb",
        [...args, "--no-instructions", "-c", "timezone=UTC", "-c", "log_timezone=UTC", ...cluster.profile.initialize],
        Redacted.value(password)
      )
      return { code: yield* initdb.exited, output: yield* initdb.lastLines }
    })
  ).pipe(Effect.catchAll((error) => Effect.succeed({ code: -1, output: error.message })))
  if (code === 0) return
  yield* spaceIsLeft(cluster.directory, output)
  if (code === 126 || code === 127) {
    return yield* new BinariesUnusable({ path: cluster.binaries.directory, detail: output })
  }
  if (output.includes("could not look up effective user ID")) {
    return yield* new ServerAccountMissing({ uid: process.getuid?.() ?? 0 })
  }
  return yield* new InitializationFailed({ directory: cluster.directory, detail: output })
})

/** Fails if the data was written by another major version, which PostgreSQL cannot read. */
export const checkVersion = ({ binaries, data, directory }: Cluster) =>
  Effect.gen(function* () {
    const text = yield* Effect.orElseSucceed(
      Effect.tryPromise(() => readFile(join(data, "PG_VERSION"), "utf8")),
      () => ""
    )
    if (text.trim() === binaries.major) return
    const found = text.trim() === "" ? "of an unknown version" : text.trim()
    return yield* new DataVersionMismatch({ directory, found, expected: binaries.major })
  })

/**
 * Reads the pid and port of a ready server from postmaster.pid. Its lines are: pid, directory, start time, port,
 * socket, address, shared memory, state.
 */
export const readNotice = (
  data: string
): Effect.Effect<Option.Option<{ readonly pid: number; readonly port: number }>> =>
  Effect.tryPromise(() => readFile(join(data, "postmaster.pid"), "utf8")).pipe(
    Effect.map((text) => text.split("\n")),
    Effect.filterOrFail((lines) => lines[7]?.trim() === "ready"),
    Effect.map((lines) => ({ pid: Number(lines[0]), port: Number(lines[3]) })),
    Effect.option
  )

/** Long enough for crash recovery, which must not be interrupted while the server is alive. */
const longestStart = Duration.minutes(5)

const attempt = Effect.fn("PostgresServer.start")(function* (
  cluster: Cluster,
  port: number,
  socketDirectory: string
): Effect.fn.Return<PostgresServer, ServerStartFailed | DirectoryUnusable | PortTaken, Scope.Scope> {
  const { data, directory, profile } = cluster
  const settings = {
    ...profile.settings,
    port: `${port}`,
    listen_addresses: "127.0.0.1",
    unix_socket_directories: `"${socketDirectory.replaceAll('"', '""')}"`,
    logging_collector: "off",
    log_destination: "stderr"
  }
  const args = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])
  const server = yield* Effect.mapError(
    spawn(cluster, data, "postgres", args, ""),
    (error) => new ServerStartFailed({ directory, detail: error.message })
  )
  yield* cluster.onLaunch
  const ready = readNotice(data).pipe(
    Effect.filterOrFail(Option.exists((notice) => notice.pid === server.pid)),
    Effect.retry(Schedule.spaced("20 millis")),
    Effect.orDie,
    Effect.as(true)
  )
  const outcome = yield* Effect.raceFirst(ready, Effect.as(server.exited, false)).pipe(
    Effect.timeoutOption(longestStart)
  )
  const output = yield* server.lastLines
  if (Option.contains(outcome, true)) {
    return { pid: server.pid, exited: Effect.zipRight(server.exited, server.lastLines), signal: server.signal }
  }
  if (output.includes("Address already in use")) return yield* new PortTaken({ port })
  yield* spaceIsLeft(directory, output)
  const detail = Option.isSome(outcome) ? output : `${output}\nnot ready after ${Duration.format(longestStart)}`
  return yield* new ServerStartFailed({ directory, detail })
})

const oldProcessesEnd = Schedule.intersect(Schedule.spaced("200 millis"), Schedule.recurs(50))

/**
 * Starts the server; closing the Scope stops it. Retries while children of a killed server still hold shared memory.
 */
export const start = (
  cluster: Cluster,
  port: number,
  socketDirectory: string
): Effect.Effect<PostgresServer, ServerStartFailed | DirectoryUnusable | PortTaken, Scope.Scope> =>
  Effect.retry(attempt(cluster, port, socketDirectory), {
    schedule: oldProcessesEnd,
    while: (error) => error._tag === "ServerStartFailed" && error.detail.includes("pre-existing shared memory block")
  })

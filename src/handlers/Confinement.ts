import { constants } from "node:fs"
import { access, open, realpath, stat } from "node:fs/promises"
import { isAbsolute, join, resolve, sep } from "node:path"
import type { Readable } from "node:stream"
import { Data, Effect, type Scope } from "effect"

/** A path or executable that the job may not use, or that does not exist. A retry would fail the same way. */
export class Refused extends Data.TaggedError("Refused")<{ readonly reason: string }> {
  override get message(): string {
    return this.reason
  }
}

const errorCode = (error: unknown) => (error instanceof Error && "code" in error ? String(error.code) : String(error))

const why = (error: unknown): string => {
  switch (errorCode(error)) {
    case "ENOENT":
    case "ENOTDIR":
      return "does not exist"
    case "EACCES":
    case "EPERM":
      return "is not accessible to the user that runs Nightshift"
    default:
      return `cannot be used (${errorCode(error)})`
  }
}

const attempt = <A>(what: string, run: () => Promise<A>): Effect.Effect<A, Refused> =>
  Effect.tryPromise({ try: run, catch: (error) => new Refused({ reason: `${what} ${why(error)}` }) })

const quoted = (text: string) => JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text)

const isIn = (path: string, root: string) => path === root || path.startsWith(root === sep ? sep : root + sep)

/** Returns the real path of a directory, with all symbolic links resolved. */
export const folder = (path: string): Effect.Effect<string, Refused> =>
  Effect.gen(function* () {
    const real = yield* attempt(quoted(path), () => realpath(path))
    const found = yield* attempt(quoted(path), () => stat(real))
    return found.isDirectory() ? real : yield* new Refused({ reason: `${quoted(path)} is not a directory` })
  })

/** Returns the real path of a directory inside the root. `root` must be a real path. */
export const folderIn = (root: string, path: string): Effect.Effect<string, Refused> =>
  Effect.gen(function* () {
    const real = yield* folder(resolve(root, path))
    return isIn(real, root) ? real : yield* new Refused({ reason: `${quoted(path)} is outside ${quoted(root)}` })
  })

/** Opens a file inside the root for reading. Closed with the Scope. */
export const fileIn = (root: string, path: string): Effect.Effect<Readable, Refused, Scope.Scope> =>
  Effect.gen(function* () {
    const requested = resolve(root, path)
    // O_NONBLOCK: opening a named pipe must not wait for a writer.
    const file = yield* Effect.acquireRelease(
      attempt(quoted(path), () => open(requested, constants.O_RDONLY | constants.O_NONBLOCK)),
      (opened) => Effect.ignore(Effect.tryPromise(() => opened.close()))
    )
    // Open first, then resolve the path and compare inodes. Checking the path before opening it would race with a
    // symbolic link that is swapped in between.
    const found = yield* attempt(quoted(path), () => file.stat())
    const real = yield* attempt(quoted(path), () => realpath(requested))
    const there = yield* attempt(quoted(path), () => stat(real))
    if (!isIn(real, root) || there.ino !== found.ino || there.dev !== found.dev) {
      return yield* new Refused({ reason: `${quoted(path)} is outside ${quoted(root)}` })
    }
    if (!found.isFile()) return yield* new Refused({ reason: `${quoted(path)} is not a file` })
    return file.createReadStream({ autoClose: false })
  })

const isExecutable = async (path: string): Promise<boolean> => {
  try {
    await access(path, constants.X_OK)
    return (await stat(path)).isFile()
  } catch {
    return false
  }
}

const firstIn = async (name: string, path: string): Promise<string | undefined> => {
  for (const directory of path.split(":")) {
    if (isAbsolute(directory) && (await isExecutable(join(directory, name)))) return join(directory, name)
  }
  return undefined
}

/** Allowed executables by the names a job may use for them. */
export type Allowed = ReadonlyMap<string, string>

/** Resolves each entry: a name in the directories of `path`, or an absolute path as it is. */
export const allow = (entries: ReadonlyArray<string>, path: string): Effect.Effect<Allowed, Refused> =>
  Effect.gen(function* () {
    const allowed = new Map<string, string>()
    for (const entry of entries) {
      if (entry.includes("/") && !isAbsolute(entry)) {
        return yield* new Refused({ reason: `${quoted(entry)} is neither a name nor an absolute path` })
      }
      const found = yield* Effect.promise(async () => {
        if (!entry.includes("/")) return firstIn(entry, path)
        return (await isExecutable(entry)) ? entry : undefined
      })
      if (found === undefined) {
        const where = entry.includes("/") ? "" : ` in ${path}`
        return yield* new Refused({ reason: `${quoted(entry)} is not an executable file${where}` })
      }
      allowed.set(entry, found).set(found, found)
    }
    return allowed
  })

/** Returns the path of an allowed executable, or fails if it is not allowed or no longer exists. */
export const executable = (allowed: Allowed, name: string): Effect.Effect<string, Refused> =>
  Effect.gen(function* () {
    const path = allowed.get(name)
    if (path === undefined) {
      return yield* new Refused({
        reason: `${quoted(name)} is not allowed (allowed: ${[...allowed.keys()].join(", ")})`
      })
    }
    yield* attempt(quoted(path), () => access(path, constants.X_OK))
    return path
  })

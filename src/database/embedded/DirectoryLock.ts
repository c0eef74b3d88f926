import { chown, mkdir, open, readdir, readFile, rename, rm, stat, utimes } from "node:fs/promises"
import { hostname } from "node:os"
import { join } from "node:path"
import {
  Clock,
  DateTime,
  Deferred,
  Duration,
  Effect,
  Fiber,
  Option,
  Random,
  Schedule,
  Schema,
  type Scope
} from "effect"
import { repeated } from "../../core/Loop.js"
import { DirectoryHeld, type DirectoryUnusable, errorCode, inDirectory } from "./EmbeddedPostgresError.js"
import { isSame, place, processStart } from "./OsProcess.js"

// A process that wants the directory first writes a claim, a file with a unique name, and only then reads the claims of
// other processes. It holds the directory if it finds no other claim. If two processes start at once, the one whose
// claim appears later sees the other's, so both can never find themselves alone. Any process may remove the claim of a
// dead process. With a single lock file this is a race: two processes consider it stale, and the slower one deletes the
// new lock of the faster one. With unique names only the stale claim is removed, and removing it twice is harmless.
//
// If two processes see each other, the one with the smaller name waits for the other to withdraw and proceeds. Names
// start with the time, so a holder's name is smaller than a newcomer's, and the newcomer fails at once. If the clock
// was set back, the newcomer has the smaller name and fails after waiting.

const Claim = Schema.Struct({
  pid: Schema.Number,
  start: Schema.String,
  place: Schema.String,
  host: Schema.String,
  /** The directory's path when it was claimed. A claim in a directory with another path may be a copy. */
  path: Schema.optional(Schema.String),
  since: Schema.DateTimeUtc
})
type Claim = typeof Claim.Type

const ClaimFile = Schema.parseJson(Claim)

export interface DirectoryLock {
  /** Completes when another process considered this one dead and took the directory. */
  readonly lost: Effect.Effect<void>
}

export interface DirectoryLockTimes {
  /** Interval at which a holder updates its claim. */
  readonly beat: Duration.DurationInput

  /** Time without an update after which a claim from another host or container is stale. */
  readonly silence: Duration.DurationInput
}

const defaultTimes: DirectoryLockTimes = { beat: "2 seconds", silence: "10 seconds" }
const withdrawal = Schedule.intersect(Schedule.spaced("50 millis"), Schedule.recurs(20))

/** Returns the folder of the claims on a directory. */
export const claimsOf = (directory: string): string => join(directory, "lock")

interface Found {
  readonly name: string
  readonly claim: Option.Option<Claim>
}

const list = (directory: string): Effect.Effect<ReadonlyArray<Found>, DirectoryUnusable> =>
  Effect.gen(function* () {
    const claims = claimsOf(directory)
    const names = yield* inDirectory(directory, () => readdir(claims))
    return yield* Effect.forEach(
      names.filter((name) => name.endsWith(".json")).sort(),
      (name): Effect.Effect<Found> =>
        Effect.tryPromise(() => readFile(join(claims, name), "utf8")).pipe(
          Effect.flatMap(Schema.decode(ClaimFile)),
          Effect.option,
          Effect.map((claim) => ({ name, claim }))
        )
    )
  })

const lastSign = (file: string): Effect.Effect<Option.Option<number>> =>
  Effect.option(Effect.tryPromise(async () => (await stat(file)).mtimeMs))

/** Watches a claim for updates, because the clock of its writer may differ. */
const isSilent = (file: string, { beat, silence }: DirectoryLockTimes): Effect.Effect<boolean> =>
  Effect.gen(function* () {
    const first = yield* lastSign(file)
    if (Option.isNone(first)) return true
    const age = (yield* Clock.currentTimeMillis) - first.value
    const signTimeout = Math.max(Duration.toMillis(beat) * 2, Duration.toMillis(silence) - Math.max(age, 0))
    const changed = Effect.filterOrFail(lastSign(file), (sign) => !Option.contains(sign, first.value))
    const sign = yield* Effect.retry(changed, Schedule.spaced(Duration.times(beat, 0.25))).pipe(
      Effect.orDie,
      Effect.timeoutTo({ duration: signTimeout, onTimeout: () => Option.none(), onSuccess: (sign) => sign })
    )
    return Option.isNone(sign)
  })

/** Whether two paths lead to one directory, such as by a symbolic link or a bind mount. */
const isSameDirectory = (a: string, b: string): Effect.Effect<boolean> =>
  Effect.tryPromise(() => Promise.all([stat(a, { bigint: true }), stat(b, { bigint: true })])).pipe(
    Effect.map(([first, second]) => first.dev === second.dev && first.ino === second.ino),
    Effect.orElseSucceed(() => false)
  )

/** Whether the claim's pid can be checked here: it was written on this host, and not copied with the directory. */
const isNear = ({ path, place }: Claim, directory: string, here: string): Effect.Effect<boolean> => {
  if (place !== here) return Effect.succeed(false)
  return path === undefined || path === directory ? Effect.succeed(true) : isSameDirectory(path, directory)
}

/**
 * Watches a claim whose path leads elsewhere for updates: either its writer sees this directory under another path, as in a
 * container, or the claim was copied together with the directory.
 */
const isDead =
  (directory: string, here: string, times: DirectoryLockTimes) =>
  ({ claim, name }: Found) =>
    Effect.gen(function* () {
      const file = join(claimsOf(directory), name)
      if (Option.isNone(claim)) return yield* isSilent(file, times)
      const { path = directory, pid, start } = claim.value
      if (yield* isNear(claim.value, directory, here)) return !(yield* isSame(pid, start))
      const silent = yield* isSilent(file, times)
      if (silent && path !== directory)
        yield* Effect.logInfo(`${directory} was copied from ${path}: ignoring the lock of process ${pid} in it`)
      return silent
    })

const write = (directory: string, name: string, claim: Claim) =>
  Effect.gen(function* () {
    const claims = claimsOf(directory)
    const text = yield* Effect.orDie(Schema.encode(ClaimFile)(claim))
    // Written atomically, so that no process reads a partial claim and considers it dead.
    const unfinished = join(claims, `${name}.tmp`)
    yield* inDirectory(directory, async () => {
      const file = await open(unfinished, "wx", 0o644)
      await file
        .writeFile(text)
        .then(() => file.sync())
        .finally(() => file.close())
      await rename(unfinished, join(claims, name))
    })
  })

const remove = (file: string) => Effect.ignore(Effect.tryPromise(() => rm(file, { force: true })))

const prepare = (directory: string, claims: string) =>
  inDirectory(directory, async () => {
    await mkdir(claims, { recursive: true, mode: 0o700 })
    const { gid, uid } = await stat(directory)
    if (process.getuid?.() === 0) await chown(claims, uid, gid)
  })

const refusal = (directory: string, { claim }: Found, now: DateTime.Utc) =>
  Option.match(claim, {
    onSome: ({ host, pid, since }) => new DirectoryHeld({ directory, pid, host, since }),
    onNone: () => new DirectoryHeld({ directory, pid: 0, host: "an unknown host", since: now })
  })

/** Locks a directory until the Scope closes. Fails if a live process holds it. */
export const acquire = Effect.fn("DirectoryLock.acquire")(function* (
  directory: string,
  times: DirectoryLockTimes = defaultTimes
): Effect.fn.Return<DirectoryLock, DirectoryHeld | DirectoryUnusable, Scope.Scope> {
  const claims = claimsOf(directory)
  const since = yield* DateTime.now
  const unique = yield* Random.nextIntBetween(0, 2 ** 31)
  const name = `${since.epochMillis.toString().padStart(15, "0")}-${process.pid}-${unique}.json`
  const file = join(claims, name)
  const here = yield* place
  const start = Option.getOrElse(yield* processStart(process.pid), () => "")
  const claim: Claim = { pid: process.pid, start, place: here, host: hostname(), path: directory, since }
  const lost = yield* Deferred.make<void>()

  const rivals = Effect.gen(function* () {
    const others = (yield* list(directory)).filter((found) => found.name !== name)
    const dead = yield* Effect.forEach(others, isDead(directory, here, times), { concurrency: "unbounded" })
    yield* Effect.forEach(others, (found, index) => (dead[index] ? remove(join(claims, found.name)) : Effect.void))
    return others.filter((_, index) => !dead[index])
  })

  const showLife = Effect.gen(function* () {
    const seconds = (yield* Clock.currentTimeMillis) / 1000
    const code = yield* Effect.promise(() => utimes(file, seconds, seconds).then(() => "", errorCode))
    if (code !== "ENOENT") return
    // A user or a process in another container removed the claim. Write it again and check for other claims.
    yield* write(directory, name, claim)
    if ((yield* rivals).length > 0) yield* Deferred.succeed(lost, undefined)
  })

  yield* prepare(directory, claims)
  yield* Effect.acquireRelease(write(directory, name, claim), () => remove(file))
  // Starts before checking the other claims, which may take longer than `silence`.
  const loop = repeated({
    name: "directory lock",
    schedule: Schedule.spaced(times.beat),
    runAtStart: true,
    run: Effect.uninterruptible(Effect.ignore(showLife))
  })
  const updates = yield* Effect.forkScoped(loop)
  yield* rivals.pipe(
    Effect.flatMap(([other]) => (other === undefined ? Effect.void : Effect.fail(other))),
    Effect.retry({ schedule: withdrawal, while: (other) => "claim" in other && other.name > name }),
    Effect.mapError((other) => ("claim" in other ? refusal(directory, other, since) : other)),
    // The Scope may stay open after a failure, and the leftover claim would block other processes. Updates stop first: they
    // would write the claim again.
    Effect.onError(() => Effect.zipRight(Fiber.interrupt(updates), remove(file)))
  )
  return { lost: Deferred.await(lost) }
})

/** Whether a process on this host and in this pid namespace holds the directory. */
export const isHeld = (directory: string): Effect.Effect<boolean> =>
  Effect.gen(function* () {
    const here = yield* place
    const found = yield* list(directory)
    const alive = yield* Effect.forEach(found, ({ claim }) =>
      Option.isNone(claim)
        ? Effect.succeed(false)
        : Effect.if(isNear(claim.value, directory, here), {
            onTrue: () => isSame(claim.value.pid, claim.value.start),
            onFalse: () => Effect.succeed(false)
          })
    )
    return alive.some((held) => held)
  }).pipe(Effect.orElseSucceed(() => false))

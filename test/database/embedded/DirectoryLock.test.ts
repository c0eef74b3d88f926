import { spawn } from "node:child_process"
import { once } from "node:events"
import { readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs"
import { cp, mkdir, readdir, symlink } from "node:fs/promises"
import { hostname } from "node:os"
import { join } from "node:path"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Either, Exit, Logger, Option, Schedule, Scope } from "effect"
import { acquire, claimsOf, isHeld } from "../../../src/database/embedded/DirectoryLock.js"
import { place, processStart } from "../../../src/database/embedded/OsProcess.js"
import { eventually, scratch } from "./fixtures/Scratch.js"

const quick = { beat: "50 millis", silence: "300 millis" } as const
const claimsIn = (directory: string) => readdirSync(claimsOf(directory)).filter((name) => name.endsWith(".json"))

/** Writes a claim as another process would. */
const plant = (directory: string, name: string, claim: { pid: number; start: string; place: string; path?: string }) =>
  Effect.promise(async () => {
    await mkdir(claimsOf(directory), { recursive: true })
    const file = join(claimsOf(directory), `${name}.json`)
    writeFileSync(file, JSON.stringify({ ...claim, host: "elsewhere", since: "2026-01-02T03:04:05.000Z" }))
    return file
  })

const living = Effect.gen(function* () {
  const start = Option.getOrThrow(yield* processStart(process.pid))
  return { pid: process.pid, start, place: yield* place }
})

/** A process that has just exited. */
const dead = Effect.gen(function* () {
  const child = spawn("/bin/sh", ["-c", "read line"], { stdio: ["pipe", "ignore", "ignore"] })
  const pid = child.pid ?? 0
  const start = Option.getOrThrow(yield* processStart(pid))
  child.kill("SIGKILL")
  yield* Effect.promise(() => once(child, "exit"))
  return { pid, start, place: yield* place }
})

describe("the lock on a directory", () => {
  it.scopedLive("refuses a second process and names the holder, and is free after release", () =>
    Effect.gen(function* () {
      const directory = yield* scratch
      const scope = yield* Scope.make()
      yield* Scope.extend(acquire(directory), scope)
      const refused = yield* Effect.flip(acquire(directory))
      const holder = `${directory} is in use by process ${process.pid} on ${hostname()} since 20`
      assert.isTrue(refused.message.startsWith(holder), refused.message)
      assert.strictEqual(claimsIn(directory).length, 1)
      assert.isTrue(yield* isHeld(directory))
      yield* Scope.close(scope, Exit.void)
      assert.isFalse(yield* isHeld(directory))
      yield* acquire(directory)
    })
  )

  it.scopedLive("is free in a copy of a directory that is held, and held under another name of it", () =>
    Effect.gen(function* () {
      const parent = yield* scratch
      const [original, copy, name] = [join(parent, "original"), join(parent, "copy"), join(parent, "name")]
      yield* Effect.promise(() => mkdir(original))
      yield* acquire(original, quick)
      yield* Effect.promise(async () => {
        await cp(original, copy, { recursive: true, preserveTimestamps: true })
        await symlink(original, name)
      })
      assert.strictEqual(claimsIn(copy).length, 1)
      assert.isFalse(yield* isHeld(copy))
      const lines: Array<string> = []
      const log = Logger.replace(
        Logger.defaultLogger,
        Logger.make(({ message }) => void lines.push(String(message)))
      )
      yield* Effect.provide(acquire(copy, quick), log)
      assert.deepStrictEqual(lines, [
        `${copy} was copied from ${original}: ignoring the lock of process ${process.pid} in it`
      ])
      const refused = yield* Effect.flip(acquire(name, quick))
      assert.match(refused.message, new RegExp(`is in use by process ${process.pid} on `))
      assert.isTrue(yield* isHeld(original))
    })
  )

  it.scopedLive("is held under another name of the directory by a living process that shows no heartbeat", () =>
    Effect.gen(function* () {
      const parent = yield* scratch
      const [original, name] = [join(parent, "original"), join(parent, "name")]
      yield* Effect.promise(async () => {
        await mkdir(original)
        await symlink(original, name)
      })
      const file = yield* plant(original, "000000000000001", { ...(yield* living), path: original })
      utimesSync(file, 1_000_000, 1_000_000)
      assert.isTrue(yield* isHeld(name))
      assert.strictEqual((yield* Effect.flip(acquire(name, quick)))._tag, "DirectoryHeld")
      assert.strictEqual(claimsIn(original).length, 1)
    })
  )

  it.scopedLive("has one winner among many processes that find a dead holder at the same time", () =>
    Effect.gen(function* () {
      const gone = yield* dead
      for (const round of Array.from({ length: 8 }, (_, round) => round)) {
        const directory = yield* scratch
        yield* plant(directory, `00000000000000${round}`, gone)
        const tries = Array.from({ length: 8 }, () => Effect.either(acquire(directory)))
        const winners = (yield* Effect.all(tries, { concurrency: "unbounded" })).filter(Either.isRight)
        assert.strictEqual(winners.length, 1)
        assert.strictEqual(claimsIn(directory).length, 1)
      }
    })
  )

  it.scopedLive("is not claimed again by a process that failed to get it", () =>
    Effect.gen(function* () {
      const directory = yield* scratch
      yield* plant(directory, "000000000000001", yield* living)
      for (const _ of Array.from({ length: 20 })) yield* Effect.flip(acquire(directory, { ...quick, beat: "1 millis" }))
      yield* Effect.forEach(Array.from({ length: 20 }), () => Effect.promise(() => readdir(claimsOf(directory))))
      assert.deepStrictEqual(claimsIn(directory), ["000000000000001.json"])
    })
  )

  it.scopedLive("is not held by an unrelated process that reuses the dead holder's pid", () =>
    Effect.gen(function* () {
      const directory = yield* scratch
      yield* plant(directory, "000000000000001", { ...(yield* living), start: "long ago" })
      assert.isFalse(yield* isHeld(directory))
      yield* acquire(directory)
    })
  )

  it.scopedLive("is held by a living process whose clock was ahead of ours", () =>
    Effect.gen(function* () {
      const directory = yield* scratch
      yield* plant(directory, "999999999999999", yield* living)
      assert.strictEqual((yield* Effect.flip(acquire(directory)))._tag, "DirectoryHeld")
      assert.deepStrictEqual(claimsIn(directory), ["999999999999999.json"])
    })
  )

  it.scopedLive("is taken over from another container that has gone silent or left no readable claim", () =>
    Effect.gen(function* () {
      const directory = yield* scratch
      yield* plant(directory, "000000000000001", { ...(yield* living), place: "another container" })
      writeFileSync(join(claimsOf(directory), "000000000000002.json"), "")
      yield* acquire(directory, quick)
      assert.strictEqual(claimsIn(directory).length, 1)
    })
  )

  it.scopedLive("stays with another container that shows a heartbeat, whatever its clock says", () =>
    Effect.gen(function* () {
      const directory = yield* scratch
      const file = yield* plant(directory, "000000000000001", { ...(yield* dead), place: "another container" })
      let seconds = 1_000_000
      const beat = Effect.sync(() => utimesSync(file, seconds, seconds++))
      yield* Effect.forkScoped(Effect.repeat(beat, Schedule.spaced("30 millis")))
      const refused = yield* Effect.flip(acquire(directory, quick))
      assert.match(refused.message, /on elsewhere since 2026-01-02T03:04:05.000Z\. Stop that process/)
    })
  )

  it.scopedLive("is claimed again when its file is removed, and lost when another process claimed it first", () =>
    Effect.gen(function* () {
      const directory = yield* scratch
      const lock = yield* acquire(directory, quick)
      const lost = yield* Deferred.make<void>()
      yield* Effect.forkScoped(Effect.zipRight(lock.lost, Deferred.succeed(lost, undefined)))
      const [claim = ""] = claimsIn(directory)
      const text = readFileSync(join(claimsOf(directory), claim), "utf8")
      rmSync(join(claimsOf(directory), claim))
      yield* eventually(Effect.sync(() => claimsIn(directory).includes(claim)))
      assert.strictEqual(readFileSync(join(claimsOf(directory), claim), "utf8"), text)
      assert.isFalse(yield* Deferred.isDone(lost))
      yield* plant(directory, "999999999999999", yield* living)
      rmSync(join(claimsOf(directory), claim))
      yield* Effect.timeout(Deferred.await(lost), "30 seconds")
    })
  )
})

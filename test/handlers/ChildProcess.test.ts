import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync } from "node:fs"
import { mkdir, mkdtemp, rm, symlink } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { build } from "esbuild"
import { afterAll, beforeAll } from "vitest"
import * as ChildProcess from "../../src/handlers/ChildProcess.js"
import * as ChildReaper from "../../src/handlers/ChildReaper.js"
import { directory, eventually, isAlive, pidsIn, stubborn } from "./fixtures/Workshop.js"

let home = ""
const parent = () => join(home, "parent.mjs")
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "ns-parent-"))
  await build({
    entryPoints: [fileURLToPath(new URL("fixtures/parent.ts", import.meta.url))],
    outfile: parent(),
    bundle: true,
    platform: "node",
    format: "esm"
  })
})
afterAll(() => rm(home, { recursive: true, force: true }))

/** Starts another process with a child, killed with the Scope; returns the child's pid. */
const start = (...args: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const other = yield* Effect.acquireRelease(
      Effect.sync(() => spawn(process.execPath, [parent(), ...args], { stdio: ["pipe", "pipe", "inherit"] })),
      (started) => Effect.sync(() => started.kill("SIGKILL"))
    )
    const gone = once(other, "exit")
    const [line] = yield* Effect.promise(() => once(other.stdout, "data"))
    return { process: other, gone: Effect.promise(() => gone), child: Number(String(line).trim()) }
  })

const childrenOf = (pid: number | undefined): ReadonlyArray<number> =>
  execFileSync("ps", ["-A", "-o", "pid=,ppid="], { encoding: "utf8" })
    .split("\n")
    .map((row) => row.trim().split(/\s+/).map(Number))
    .flatMap(([child = 0, parent]) => (parent === pid ? [child] : []))

describe.concurrent("a child whose parent is killed with -9", () => {
  it.scopedLive("ends together with its descendants, even if they ignore TERM", () =>
    Effect.gen(function* () {
      const file = join(yield* directory, "pids")
      const { gone, process } = yield* start("live", ...stubborn(file))
      const pids = yield* pidsIn(file, 3)
      process.kill("SIGKILL")
      yield* gone
      yield* eventually(() => !pids.some(isAlive))
    })
  )

  it.scopedLive("may clean up first", () =>
    Effect.gen(function* () {
      const file = join(yield* directory, "tidied")
      // Its output pipe is closed, and writing to it would end it.
      const script = `exec 2>/dev/null; trap 'echo $$ > "$0"; exit' TERM; echo begun > "$0.begun"; while :; do sleep 0.05; done`
      const { child, gone, process } = yield* start("live", "sh", "-c", script, file)
      yield* eventually(() => existsSync(`${file}.begun`))
      process.kill("SIGKILL")
      yield* gone
      yield* eventually(() => existsSync(file) && !isAlive(child))
    })
  )

  it.scopedLive("never runs if its parent dies before releasing it", () =>
    Effect.gen(function* () {
      const file = join(yield* directory, "ran")
      const { child, gone } = yield* start("birth", "sh", "-c", 'touch "$0"; sleep 1000', file)
      yield* gone
      yield* eventually(() => !isAlive(child))
      expect(existsSync(file)).toBe(false)
    })
  )

  it.scopedLive("ends even if the reaper process was killed before", () =>
    Effect.gen(function* () {
      const file = join(yield* directory, "pids")
      const { child, gone, process: other } = yield* start("live", ...stubborn(file))
      const pids = yield* pidsIn(file, 3)
      const keeperOf = () => childrenOf(other.pid).find((pid) => pid !== child)
      const first = keeperOf()
      if (first === undefined) return yield* Effect.dieMessage("nobody keeps watch")
      process.kill(first, "SIGKILL")
      yield* eventually(() => keeperOf() !== undefined && keeperOf() !== first)
      // After another child has started, the second reaper knows both.
      other.stdin?.write("go on\n")
      const [line] = yield* Effect.promise(() => once(other.stdout, "data"))
      pids.push(Number(String(line).trim()))
      other.kill("SIGKILL")
      yield* gone
      yield* eventually(() => !pids.some(isAlive))
    })
  )
})

describe("a child's working directory", () => {
  const enter = (root: string, where: string) =>
    Effect.gen(function* () {
      const reaper = yield* ChildReaper.make
      const child = yield* ChildProcess.spawn(reaper, {
        argv: ["sh", "-c", "pwd; touch entered"],
        directory: where,
        root,
        environment: { PATH: ChildProcess.cleanPath }
      })
      let stderr = ""
      child.stdout.resume()
      child.stderr.on("data", (chunk) => {
        stderr += chunk
      })
      yield* child.drained
      return child.refusalIn(stderr)
    }).pipe(Effect.scoped)

  it.scopedLive("is checked after the child has entered it, so that a swapped link cannot escape the root", () =>
    Effect.gen(function* () {
      const house = yield* directory
      const root = join(house, "root")
      yield* Effect.promise(async () => {
        await mkdir(join(root, "inside"), { recursive: true })
        await mkdir(join(house, "outside"))
        await symlink("../outside", join(root, "link"))
        await symlink("inside", join(root, "short"))
      })
      expect(yield* enter(root, join(root, "inside"))).toBeUndefined()
      expect(yield* enter(root, join(root, "short"))).toBeUndefined()
      expect(yield* enter(root, root)).toBeUndefined()
      expect(yield* enter("/", join(root, "inside"))).toBeUndefined()
      expect(yield* enter(root, join(root, "link"))).toBe(`${join(house, "outside")} is outside ${root}`)
      expect(yield* enter(join(house, "roo"), root)).toBe(`${root} is outside ${join(house, "roo")}`)
      expect(yield* enter(root, join(root, "missing"))).toMatch(/missing/)
      expect(existsSync(join(house, "outside", "entered"))).toBe(false)
    })
  )
})

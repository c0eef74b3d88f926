import { existsSync, readFileSync } from "node:fs"
import { chmod, mkdir, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import * as CmdExec from "../../src/handlers/CmdExec.js"
import { allow, sh, workshop } from "./fixtures/Commands.js"
import { directory, eventually, isAlive, perform, pidsIn, stubborn } from "./fixtures/Workshop.js"

describe("the commands that cmd_exec may run", () => {
  it.scopedLive("are those in the list, by name or by path", () =>
    Effect.gen(function* () {
      const { root, run } = yield* workshop
      const [found] = ["/usr/bin/env", "/bin/env"].filter((path) => existsSync(path))
      expect(yield* run({ argv: [found ?? "", "true"] })).toMatchObject({ _tag: "Done" })
      yield* Effect.promise(() => writeFile(join(root, "own"), "#!/bin/sh\nid\n", { mode: 0o755 }))
      for (const name of [
        "rm",
        "/bin/rm",
        "./own",
        "own",
        join(root, "own"),
        "../bin/sh",
        "",
        "sh\n",
        "/bin/../bin/sh"
      ]) {
        expect(yield* run({ argv: [name] })).toMatchObject({
          _tag: "Dead",
          error: expect.stringMatching(/ is not allowed \(allowed: sh, /)
        })
      }
    })
  )

  it.scopedLive("are resolved once: a program added to the path later is not run", () =>
    Effect.gen(function* () {
      const root = yield* directory
      const [first, second] = [join(root, "first"), join(root, "second")]
      const script = (path: string, says: string) =>
        Effect.promise(async () => {
          await mkdir(path, { recursive: true })
          await writeFile(join(path, "tool"), `#!/bin/sh\necho ${says}\n`, { mode: 0o755 })
        })
      yield* script(second, "right")
      const handler = yield* CmdExec.make({ allow: ["tool"], root, path: `relative:${first}:${second}` })
      yield* script(first, "wrong")
      expect(yield* perform(handler, { argv: ["tool"] })).toMatchObject({ result: { stdout: "right\n" } })
    })
  )

  it.scopedLive("make the job dead with a clear reason when missing or not executable", () =>
    Effect.gen(function* () {
      const root = yield* directory
      const tool = join(root, "tool")
      yield* Effect.promise(() => writeFile(tool, "#!/nowhere/to/be/found\n", { mode: 0o755 }))
      const handler = yield* CmdExec.make({ allow: [tool], root })
      const outcome = perform(handler, { argv: [tool] })
      expect(yield* outcome).toMatchObject({
        _tag: "Dead",
        error: expect.stringMatching(/^\/.*\/tool cannot be run: .*(not found|No such file)/)
      })
      yield* Effect.promise(() => chmod(tool, 0o644))
      expect(yield* outcome).toMatchObject({
        _tag: "Dead",
        error: expect.stringMatching(/is not accessible to the user/)
      })
      const long = "x".repeat(300_000)
      const other = yield* CmdExec.make({ allow: ["true"], root })
      expect(yield* perform(other, { argv: ["true", long] })).toMatchObject({
        _tag: "Dead",
        error: "true could not be started: its arguments and environment exceed the system's size limit"
      })
    })
  )

  it.scopedLive("must exist for cmd_exec to be enabled", () =>
    Effect.gen(function* () {
      const root = yield* directory
      const refusal = (options: CmdExec.CmdExecOptions) =>
        Effect.map(Effect.flip(CmdExec.make(options)), ({ message }) => message)
      expect(yield* refusal({ allow: ["no-such-tool"], root })).toBe(
        'cmd_exec cannot be enabled: "no-such-tool" is not an executable file in /usr/local/bin:/usr/bin:/bin.'
      )
      expect(yield* refusal({ allow: ["/etc/passwd"], root })).toMatch(/"\/etc\/passwd" is not an executable file\.$/)
      expect(yield* refusal({ allow: ["bin/sh"], root })).toMatch(/neither a name nor an absolute path/)
      expect(yield* refusal({ allow: ["sh"], root: join(root, "missing") })).toMatch(/missing" does not exist/)
      expect(yield* refusal({ allow: ["sh"], root: "/etc/passwd" })).toMatch(/is not a directory/)
    })
  )
})

describe("the working directory of cmd_exec", () => {
  it.scopedLive("stays inside its root, however a job tries to leave it", () =>
    Effect.gen(function* () {
      const house = yield* directory
      const root = join(house, "root")
      yield* Effect.promise(async () => {
        await mkdir(join(root, "in side"), { recursive: true })
        await mkdir(join(house, "root-next-door"))
        await writeFile(join(house, "secret"), "hunter2")
        await symlink("..", join(root, "up"))
        await symlink("/", join(root, "top"))
        await symlink(join(house, "secret"), join(root, "leak"))
        await symlink("in side", join(root, "around"))
        await symlink("loop", join(root, "loop"))
        await writeFile(join(root, "in side", "file"), "fine")
      })
      const handler = yield* CmdExec.make({ allow, root })
      const run = (payload: object) => perform(handler, payload)
      for (const cwd of ["in side", "./in side", "around", join(root, "in side"), "around/../in side", ""]) {
        const where = cwd === "" ? root : join(root, "in side")
        expect(yield* run({ argv: sh("pwd"), cwd })).toMatchObject({ result: { stdout: `${where}\n` } })
      }
      for (const cwd of ["..", "up", "top", "/", "/tmp", "../root-next-door", "in side/../..", "top/tmp", house]) {
        const outcome = yield* run({ argv: sh("touch escaped; pwd"), cwd })
        expect(outcome).toMatchObject({ _tag: "Dead", error: expect.stringContaining("is outside") })
      }
      for (const cwd of ["missing", "leak", "loop"]) {
        expect(yield* run({ argv: sh("pwd"), cwd })).toMatchObject({ _tag: "Dead" })
      }
      expect(yield* run({ argv: sh("cat"), stdin_file: "around/file" })).toMatchObject({ result: { stdout: "fine" } })
      for (const stdin_file of [
        "leak",
        "up/secret",
        "../secret",
        join(house, "secret"),
        "top/etc/passwd",
        "in side",
        "no"
      ]) {
        const outcome = yield* run({ argv: sh("cat"), stdin_file })
        expect(outcome).toMatchObject({ _tag: "Dead" })
        expect(JSON.stringify(outcome)).not.toContain("hunter2")
      }
    })
  )
})

describe.concurrent("a command that is stopped", () => {
  it.scopedLive("ends with all its descendants when its time is over, even if they ignore TERM", () =>
    Effect.gen(function* () {
      const { root, run } = yield* workshop
      const file = join(root, "pids")
      const outcome = yield* run({ argv: stubborn(file), timeout_secs: 0.5 })
      expect(outcome).toEqual({ _tag: "Retry", error: "timed out after 500ms" })
      const pids = yield* pidsIn(file, 3)
      expect(pids.filter(isAlive)).toEqual([])
    })
  )

  it.scopedLive("ends with all its descendants when its job is cancelled", () =>
    Effect.gen(function* () {
      const { root, run } = yield* workshop
      const file = join(root, "pids")
      const running = yield* Effect.fork(run({ argv: stubborn(file) }))
      const pids = yield* pidsIn(file, 3)
      expect(pids.filter(isAlive)).toHaveLength(3)
      yield* Fiber.interrupt(running)
      expect(pids.filter(isAlive)).toEqual([])
    })
  )

  it.scopedLive("may write output and clean up first", () =>
    Effect.gen(function* () {
      const { root, run } = yield* workshop
      const script = `trap 'echo tidy >&2; touch tidied; exit 0' TERM; touch begun; while :; do sleep 0.05; done`
      const running = yield* Effect.fork(run({ argv: sh(script), timeout_secs: 5 }))
      yield* eventually(() => existsSync(join(root, "begun")))
      yield* Fiber.interrupt(running)
      expect(existsSync(join(root, "tidied"))).toBe(true)
      const late = yield* run({ argv: sh(script), timeout_secs: 0.5 })
      expect(late).toMatchObject({
        _tag: "Retry",
        error: expect.stringMatching(/^timed out after 500ms: (.|\n)*tidy$/)
      })
    })
  )

  it.scopedLive("leaves no descendants behind when it exits by itself", () =>
    Effect.gen(function* () {
      const { root, run } = yield* workshop
      const outcome = yield* run({ argv: sh("sleep 1000 & echo $! > pid; echo done") })
      expect(outcome).toMatchObject({ _tag: "Done", result: { stdout: "done\n" } })
      expect(isAlive(Number(readFileSync(join(root, "pid"), "utf8")))).toBe(false)
    })
  )

  it.scopedLive("may not exceed the pod's time limit", () =>
    Effect.gen(function* () {
      const root = yield* directory
      const handler = yield* CmdExec.make({ allow, root, timeout: "2 minutes" })
      expect(yield* perform(handler, { argv: ["true"], timeout_secs: 121 })).toEqual({
        _tag: "Dead",
        error: "timeout_secs must be at most 2m"
      })
      expect(yield* perform(handler, { argv: ["true"], timeout_secs: 120 })).toMatchObject({ _tag: "Done" })
    })
  )
})

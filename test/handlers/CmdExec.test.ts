import { existsSync, readFileSync } from "node:fs"
import { chmod, mkdir, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Either, Fiber, Schema } from "effect"
import { limits } from "../../src/core/StoredJob.js"
import * as CmdExec from "../../src/handlers/CmdExec.js"
import { directory, eventually, isAlive, perform, pidsIn, stubborn } from "./fixtures/Workshop.js"

const node = process.execPath
const allow = ["sh", "env", "sleep", "true", node]

const workshop = Effect.gen(function* () {
  const root = yield* directory
  const handler = yield* CmdExec.make({ allow, root, env: ["GREETING", "root", "line", "go"] })
  return { root, handler, run: (payload: object) => perform(handler, payload) }
})

const sh = (script: string, ...args: ReadonlyArray<string>) => ["sh", "-c", script, "sh", ...args]

describe("cmd_exec", () => {
  it.scopedLive("is done when its command exits with 0, and keeps the output", () =>
    Effect.gen(function* () {
      const { root, run } = yield* workshop
      expect(yield* run({ argv: sh("pwd; echo warned >&2") })).toEqual({
        _tag: "Done",
        result: {
          exit_code: 0,
          stdout: `${root}\n`,
          stderr: "warned\n",
          stdout_bytes: root.length + 1,
          stderr_bytes: 7
        }
      })
    })
  )

  it.scopedLive("is retried after another exit code, with the code and the end of the output", () =>
    Effect.gen(function* () {
      const { run } = yield* workshop
      expect(yield* run({ argv: sh("echo out; echo no luck >&2; exit 3") })).toEqual({
        _tag: "Retry",
        error: "exit code 3: no luck"
      })
      expect(yield* run({ argv: sh("echo only out; exit 4") })).toEqual({
        _tag: "Retry",
        error: "exit code 4: only out"
      })
      expect(yield* run({ argv: sh("exit 127") })).toEqual({ _tag: "Retry", error: "exit code 127" })
      expect(yield* run({ argv: sh("kill -9 $$") })).toEqual({ _tag: "Retry", error: "killed by SIGKILL" })
    })
  )

  it.scopedLive("is dead after an exit code that its job declares permanent", () =>
    Effect.gen(function* () {
      const { run } = yield* workshop
      const argv = sh('exit "$1"', "64")
      expect(yield* run({ argv, permanent: [2, 64] })).toEqual({ _tag: "Dead", error: "exit code 64" })
      expect(yield* run({ argv, permanent: [2] })).toMatchObject({ _tag: "Retry" })
    })
  )

  it.scopedLive("passes arguments unchanged, including shell metacharacters", () =>
    Effect.gen(function* () {
      const { root, run } = yield* workshop
      const odd = [
        "a b",
        "",
        "$(touch pwned)",
        "`touch pwned`",
        "x\ny",
        "'",
        '"',
        "*",
        "~",
        "--",
        "-n",
        ";",
        "größe 🌙",
        "\\"
      ]
      const outcome = yield* run({
        argv: [node, "-e", "console.log(JSON.stringify(process.argv.slice(1)))", "--", ...odd]
      })
      const { stdout } = (outcome as unknown as { result: { stdout: string } }).result
      expect(JSON.parse(stdout)).toEqual(odd)
      expect(existsSync(join(root, "pwned"))).toBe(false)
    })
  )

  it.scopedLive("gives the command a clean environment plus the job's variables", () =>
    Effect.gen(function* () {
      const { run } = yield* workshop
      const env = { GREETING: "hello\nworld", root: "mine", line: "mine", go: "$(id)" }
      const outcome = yield* run({
        argv: [node, "-e", "console.log(JSON.stringify(process.env))"],
        env
      })
      const { stdout } = (outcome as unknown as { result: { stdout: string } }).result
      // When /bin/sh is bash, it sets SHLVL.
      const { SHLVL: _, ...found } = JSON.parse(stdout)
      expect(found).toEqual({ PATH: "/usr/local/bin:/usr/bin:/bin", ...env })
      expect(Object.keys(process.env).length).toBeGreaterThan(6)
      // It also inherits no file descriptor besides its own three.
      const sockets = yield* run({
        argv: sh('for fd in /proc/$$/fd/*; do readlink "$fd"; done | grep -c socket; true')
      })
      if (existsSync("/proc/self/fd")) expect(sockets).toMatchObject({ result: { stdout: "3\n" } })
    })
  )

  it.effect("passes no variable that the operator has not allowed by name", () =>
    Effect.gen(function* () {
      const root = yield* directory
      const decoderOf = (env?: ReadonlyArray<string>) =>
        Effect.map(CmdExec.make(env === undefined ? { allow, root } : { allow, root, env }), ({ kind }) =>
          Schema.decodeUnknownEither(kind.payload)
        )
      const byDefault = yield* decoderOf()
      const some = yield* decoderOf(["MONTH", "TZ"])
      const job = (name: string) => ({ argv: ["true"], env: { [name]: "x" } })
      // Each of these makes some program run code of the job's choice.
      for (const name of [
        ...["BASH_ENV", "ENV", "PS4", "SHELLOPTS", "NODE_OPTIONS", "PYTHONPATH", "PERL5OPT", "RUBYOPT"],
        ...[
          "GIT_SSH_COMMAND",
          "PAGER",
          "PATH",
          "LD_PRELOAD",
          "DYLD_INSERT_LIBRARIES",
          "BASH_FUNC_cd%%",
          "NIGHTSHIFT_GATE"
        ]
      ]) {
        expect(`${byDefault(job(name))}`).toMatch(
          new RegExp(`${name} is not allowed \\(allowed: none\\)\\. Add it to CMD_EXEC_ENV to allow it\\.`)
        )
        expect(`${some(job(name))}`).toMatch(new RegExp(`${name} is not allowed \\(allowed: MONTH, TZ\\)\\.`))
      }
      expect(Either.isRight(some({ argv: ["true"], env: { MONTH: "5", TZ: "UTC" } }))).toBe(true)
      expect(Either.isRight(byDefault({ argv: ["true"], env: {} }))).toBe(true)
    }).pipe(Effect.scoped)
  )

  it.effect("cannot be allowed variables that the shell or the loader would act on", () =>
    Effect.gen(function* () {
      const root = yield* directory
      for (const name of [
        "LD_PRELOAD",
        "DYLD_X",
        "NIGHTSHIFT_GATE",
        "BASH_ENV",
        "ENV",
        "SHELLOPTS",
        "PS4",
        "A=B",
        ""
      ]) {
        expect(yield* Effect.flip(CmdExec.make({ allow, root, env: ["TZ", name] }))).toMatchObject({ option: "env" })
      }
    }).pipe(Effect.scoped)
  )

  it.effect("refuses unknown and invalid fields", () =>
    Effect.gen(function* () {
      const { handler } = yield* workshop
      const decode = Schema.decodeUnknownEither(handler.kind.payload)
      for (const bad of [
        { argv: [] },
        { argv: "ls -l" },
        { argv: ["true"], timeout: 3 },
        { argv: ["true"], timeout_secs: 0 },
        { argv: ["true"], stdin: "a", stdin_file: "b" }
      ]) {
        expect([bad, Either.isLeft(decode(bad))]).toEqual([bad, true])
      }
    }).pipe(Effect.scoped)
  )

  it.scopedLive("streams ten megabytes into a command, whether it reads them or not", () =>
    Effect.gen(function* () {
      const { root, run } = yield* workshop
      yield* Effect.promise(() =>
        writeFile(join(root, "large.bin"), Buffer.alloc(10 * 1024 * 1024, "0123456789abcdef"))
      )
      const counted = yield* run({ argv: sh("wc -c; echo end"), stdin_file: "large.bin" })
      expect(counted).toMatchObject({ _tag: "Done", result: { stdout: expect.stringMatching(/^\s*10485760\nend\n$/) } })
      expect(yield* run({ argv: ["true"], stdin_file: "large.bin" })).toMatchObject({ _tag: "Done" })
      const half = yield* run({ argv: sh("head -c 100000 | wc -c"), stdin_file: "large.bin" })
      expect(half).toMatchObject({ _tag: "Done", result: { stdout: expect.stringContaining("100000") } })
      const text = "größe\n".repeat(100_000)
      const echoed = yield* run({ argv: sh("wc -c"), stdin: text })
      expect(echoed).toMatchObject({ result: { stdout: expect.stringContaining(String(Buffer.byteLength(text))) } })
      expect(yield* run({ argv: sh("cat") })).toMatchObject({ _tag: "Done", result: { stdout: "" } })
    })
  )

  it.scopedLive("reads a hundred megabytes of output in bounded memory, and keeps the end", () =>
    Effect.gen(function* () {
      const { run } = yield* workshop
      const running = yield* Effect.fork(
        run({ argv: sh("head -c 104857600 /dev/zero | tr '\\0' x; printf 'the end'; printf 'warned' >&2") })
      )
      const before = process.memoryUsage.rss()
      let most = before
      yield* Effect.race(
        Fiber.join(running),
        Effect.forever(
          Effect.delay(
            Effect.sync(() => {
              most = Math.max(most, process.memoryUsage.rss())
            }),
            "5 millis"
          )
        )
      )
      expect(most - before).toBeLessThan(60 * 1024 * 1024)
      const outcome = yield* Fiber.join(running)
      expect(outcome).toMatchObject({
        _tag: "Done",
        result: { stdout: expect.stringMatching(/^…x+the end$/), stdout_bytes: 104_857_607, stderr: "warned" }
      })
      const { stdout } = (outcome as unknown as { result: { stdout: string } }).result
      expect(stdout.length).toBeLessThanOrEqual(16 * 1024 + 1)
    })
  )

  it.scopedLive("keeps the storable part of arbitrary output bytes", () =>
    Effect.gen(function* () {
      const { run } = yield* workshop
      for (const script of [
        "head -c 200000 /dev/zero; head -c 200000 /dev/zero >&2",
        "head -c 200000 /dev/urandom; head -c 200000 /dev/urandom >&2",
        "i=0; while [ $i -lt 3000 ]; do printf 'größe🌙'; i=$((i+1)); done",
        "printf '\\001\\002\\n' ; head -c 100000 /dev/zero | tr '\\0' '\\001'"
      ]) {
        const outcome = yield* run({ argv: sh(script) })
        expect(outcome._tag).toBe("Done")
        const json = JSON.stringify((outcome as unknown as { result: unknown }).result)
        expect(Buffer.byteLength(json)).toBeLessThan(limits.resultBytes)
        expect(json).not.toContain("\\u0000")
        expect(json).not.toMatch(/\\ud[89a-f]/)
      }
    })
  )
})

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

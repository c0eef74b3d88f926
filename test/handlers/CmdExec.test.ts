import { existsSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Either, Fiber, Schema } from "effect"
import { limits } from "../../src/core/StoredJob.js"
import * as CmdExec from "../../src/handlers/CmdExec.js"
import { allow, node, sh, workshop } from "./fixtures/Commands.js"
import { directory } from "./fixtures/Workshop.js"

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

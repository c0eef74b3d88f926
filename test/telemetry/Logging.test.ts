import { Console } from "node:console"
import { PassThrough } from "node:stream"
import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect, Exit, Logger, LogLevel } from "effect"
import { vi } from "vitest"
import { z } from "zod"
import { connect, job } from "../../src/client/index.js"
import * as Logging from "../../src/telemetry/Logging.js"
import type { Log } from "../../src/telemetry/LogSink.js"
import { testShift } from "../../src/testing/index.js"

type Call = readonly [method: string, ...args: ReadonlyArray<unknown>]

/** An object whose methods note their calls. */
const noting = <Name extends string>(calls: Array<Call>, ...names: ReadonlyArray<Name>) =>
  Object.fromEntries(
    names.map((name) => [name, (...args: ReadonlyArray<unknown>) => void calls.push([name, ...args])])
  ) as Record<Name, () => void>

const everyLevel = Effect.all(
  [Effect.logTrace("t"), Effect.logDebug("d"), Effect.logWarning("w", { order: 7 }), Effect.logFatal("f")],
  { discard: true }
).pipe(Logger.withMinimumLogLevel(LogLevel.All))

const logged = (log: Log) => Effect.provide(everyLevel, Logging.to(log, []))

describe("the option log", () => {
  it.effect("is an object with the methods of console, which get the message and the fields", () =>
    Effect.gen(function* () {
      const calls: Array<Call> = []
      yield* logged(noting(calls, "debug", "info", "warn", "error", "trace"))
      expect(calls).toEqual([
        ["debug", "t", {}],
        ["debug", "d", {}],
        ["warn", "w", { order: 7 }],
        ["error", "f", {}]
      ])
    })
  )

  it.effect("is a logger of pino, whose methods get the fields and the message", () =>
    Effect.gen(function* () {
      const calls: Array<Call> = []
      const pino = noting(calls, "trace", "debug", "info", "warn", "error", "fatal", "bindings")
      yield* logged(pino as unknown as Log)
      expect(calls).toEqual([
        ["trace", {}, "t"],
        ["debug", {}, "d"],
        ["warn", { order: 7 }, "w"],
        ["fatal", {}, "f"]
      ])
    })
  )

  it.effect("is a console, which prints the fields behind the message and the error below", () =>
    Effect.gen(function* () {
      const stdout = new PassThrough({ encoding: "utf8" })
      const stderr = new PassThrough({ encoding: "utf8" })
      const failed = Effect.logError("it failed", { order: 7, error: "no\n    at app.ts" })
      yield* Effect.provide(Effect.zipRight(Effect.logInfo("up"), failed), Logging.to(new Console(stdout, stderr), []))
      expect(stdout.read()).toBe("up\n")
      expect(stderr.read()).toBe("it failed  order=7\n    no\n        at app.ts\n")
    })
  )

  it.effect("is false for no log, whatever was used before", () =>
    Effect.gen(function* () {
      const calls: Array<Call> = []
      const outer = Logging.to(noting(calls, "debug", "info", "warn", "error"), [])
      yield* logged(false).pipe(Effect.provide(outer))
      expect(calls).toEqual([])
      const inner: Array<Call> = []
      yield* logged(noting(inner, "debug", "info", "warn", "error")).pipe(Effect.provide(outer))
      expect([calls.length, inner.length]).toEqual([0, 4])
    })
  )

  it.effect("may throw or reject: the line goes to standard error, and nothing else happens", () =>
    Effect.gen(function* () {
      const printed: Array<string> = []
      const write = vi.spyOn(process.stderr, "write").mockImplementation((chunk) => printed.push(String(chunk)) > 0)
      const broken = () => {
        throw new Error("disk full")
      }
      const rejecting = async () => broken()
      yield* Effect.provide(
        Effect.zipRight(Effect.logInfo("one"), Effect.logError("two")),
        Logging.to({ debug: broken, info: broken, warn: broken, error: rejecting }, [])
      )
      yield* Effect.promise(() => new Promise(setImmediate))
      write.mockRestore()
      expect(printed.map((line) => JSON.parse(line))).toMatchObject([{ msg: "one" }, { msg: "two" }])
    })
  )

  it.effect("hides the fields of NIGHTSHIFT_MASK, and has the levels of LOG_LEVEL", () =>
    Effect.gen(function* () {
      const calls: Array<Call> = []
      const log = Logging.layerOf(noting(calls, "debug", "info", "warn", "error"))
      const lines = Effect.zipRight(Effect.logInfo("quiet"), Effect.logWarning("pin=4711", { pin: 4711 }))
      const settings = new Map([
        ["LOG_LEVEL", "warn"],
        ["NIGHTSHIFT_MASK", "pin"]
      ])
      yield* Effect.provide(lines, log).pipe(Effect.withConfigProvider(ConfigProvider.fromMap(settings)))
      expect(calls).toEqual([["warn", "pin=[masked]", { pin: "[masked]" }]])
      for (const level of ["warning", "WARN", "none"]) {
        const known = new Map([["LOG_LEVEL", level]])
        const exit = yield* Effect.exit(Effect.provide(Effect.void, log)).pipe(
          Effect.withConfigProvider(ConfigProvider.fromMap(known))
        )
        expect(Exit.isSuccess(exit)).toBe(true)
      }
    })
  )

  it("says what it must be", async () => {
    const known = job("known", { payload: z.object({}) })
    const expected =
      "log must be false, console, a pino logger, or an object with the methods debug, info, warn and error"
    for (const [log, message] of [
      [true, `${expected}, got true.`],
      ["console", `${expected}, got "console".`],
      [{ info: () => {}, error: () => {} }, `${expected}. This one has no debug or warn.`]
    ] as unknown as ReadonlyArray<readonly [never, string]>) {
      await expect(testShift({ handlers: [known.handle(() => {})], log })).rejects.toThrow(message)
      await expect(connect("postgres://127.0.0.1:1/none", { log })).rejects.toThrow(message)
    }
  })
})

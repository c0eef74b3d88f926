import { describe, expect, it } from "@effect/vitest"
import { Cause, Effect, Logger } from "effect"
import { jsonLine } from "../../src/telemetry/Logging.js"

const linesOf = (effect: Effect.Effect<void>) =>
  Effect.gen(function* () {
    const lines: Array<Record<string, unknown>> = []
    const keep = Logger.map(jsonLine, (line) => void lines.push(JSON.parse(line)))
    yield* Effect.provide(effect, Logger.replace(Logger.defaultLogger, keep))
    return lines
  })

const time = "1970-01-01T00:00:00.000Z"

describe("a JSON log line", () => {
  it.effect("has its level, time and text first, and no empty fields", () =>
    Effect.gen(function* () {
      const [line] = yield* linesOf(Effect.logInfo("stopped"))
      expect(line).toEqual({ level: "info", time, msg: "stopped" })
      expect(Object.keys(line ?? {})).toEqual(["level", "time", "msg"])
    })
  )

  it.effect("names the job, its kind and its attempt at the top, beside the fields of the program", () =>
    Effect.gen(function* () {
      const job = { id: "0198", kind: "charge", queue: "money", attempt: 2 }
      const charged = Effect.logWarning("charged").pipe(Effect.annotateLogs({ order: 7, kind: "vip" }))
      expect(yield* linesOf(Effect.annotateLogs(charged, "job", job))).toEqual([
        {
          level: "warn",
          time,
          msg: "charged",
          job: "0198",
          kind: "charge",
          queue: "money",
          attempt: 2,
          order: 7,
          fields: { kind: "vip" }
        }
      ])
    })
  )

  it.effect("has errors as text, from arguments and causes", () =>
    Effect.gen(function* () {
      const [given, caused] = yield* linesOf(
        Effect.zipRight(
          Effect.logError("a request failed", new TypeError("no")),
          Effect.logError("it failed", Cause.fail("disk full"))
        )
      )
      expect(given).toMatchObject({ level: "error", msg: "a request failed" })
      expect(given?.error).toMatch(/^TypeError: no\n +at /)
      expect(caused).toMatchObject({ msg: "it failed", error: expect.stringContaining("disk full") })
    })
  )
})

import { describe, expect, it } from "@effect/vitest"
import { Effect, Logger, LogLevel, TestClock } from "effect"
import { RepeatedLines } from "../../src/core/RepeatedLines.js"
import { DatabaseFault, DatabaseUnavailable } from "../../src/database/DatabaseError.js"
import * as Problem from "../../src/http/Problem.js"

const statusOf = (sqlState: string) =>
  Effect.map(Problem.toResponse(new DatabaseFault({ detail: "no equivalent", sqlState })), ({ status }) => status).pipe(
    Logger.withMinimumLogLevel(LogLevel.None)
  )

describe("an error of the database", () => {
  it.effect("is the caller's fault if the database's encoding cannot store a character, otherwise the server's", () =>
    Effect.gen(function* () {
      expect(yield* statusOf("22P05")).toBe(400)
      expect(yield* statusOf("42703")).toBe(500)
    })
  )
})

describe("failed requests", () => {
  it.effect("are logged once per cause and ten seconds, with the number of the others", () =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      const collect = Logger.replace(
        Logger.defaultLogger,
        Logger.make(({ message }) => void lines.push(String(Array.isArray(message) ? message[0] : message)))
      )
      const outage = (detail: string) => new DatabaseUnavailable({ detail, nothingWritten: true })
      const refuse = (detail: string) => Problem.toResponse(outage(detail)).pipe(Effect.replicateEffect(100))
      yield* Effect.gen(function* () {
        yield* refuse("ECONNREFUSED")
        yield* refuse("timeout")
        yield* TestClock.adjust("10 seconds")
        yield* refuse("ECONNREFUSED")
      }).pipe(Effect.provideService(Problem.FailedRequests, new RepeatedLines()), Effect.provide(collect))
      expect(lines).toEqual([
        "a request failed",
        "a request failed",
        "a request failed, and 99 more since the last line"
      ])
    })
  )
})

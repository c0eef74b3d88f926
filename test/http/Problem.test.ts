import { describe, expect, it } from "@effect/vitest"
import { Effect, Logger, LogLevel } from "effect"
import { DatabaseFault } from "../../src/database/DatabaseError.js"
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

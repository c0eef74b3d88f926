import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect, Option } from "effect"
import { problems } from "../../src/core/Setting.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"

const read = (schema: string) =>
  Effect.map(DatabaseConfig, (config) => config.schema).pipe(
    Effect.provide(DatabaseConfig.layer),
    Effect.withConfigProvider(ConfigProvider.fromMap(new Map([["DATABASE_SCHEMA", schema]])))
  )

describe("DATABASE_SCHEMA", () => {
  it.effect.each(["nightshift", "_x9", "jobs_of_the_order_desk", `a${"b".repeat(55)}`])("accepts %s", (name) =>
    Effect.gen(function* () {
      expect(yield* read(name)).toBe(name)
    })
  )

  // Statements use the name without quotes, and notification channels are named after it.
  it.effect.each(["Night", "night-shift", 'a"b', "pg_jobs", "order", "user", "select", "left", `a${"b".repeat(56)}`])(
    "refuses %s and names the rule",
    (name) =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(read(name))
        expect(problems(error).join()).toMatch(/DATABASE_SCHEMA.*at most 56.*not a reserved SQL word/)
      })
  )
})

describe("a time limit", () => {
  const answerTo = (key: string, value: string) =>
    Effect.provide(DatabaseConfig, DatabaseConfig.layer).pipe(
      Effect.withConfigProvider(ConfigProvider.fromMap(new Map([[key, value]]))),
      Effect.match({ onFailure: (error) => problems(error).join(), onSuccess: () => "accepted" })
    )
  const timers: ReadonlyArray<readonly [key: string, range: string]> = [
    ["DATABASE_STATEMENT_TIMEOUT", "a duration from 1ms to 10d"],
    ["DATABASE_CONNECT_TIMEOUT", "a duration from 1ms to 1h"],
    ["DATABASE_MAX_LIFETIME", "a duration from 1s to 24d"]
  ]

  // Timers of more than 24.8 days fire at once, and 0 is no limit in some places and the shortest in others.
  it.effect.each(timers)("%s must be %s", ([key, range]) =>
    Effect.gen(function* () {
      for (const value of ["0", "0s", "25d", "300d"])
        expect(yield* answerTo(key, value)).toContain(`${key}: expected ${range}, got "${value}"`)
      const [, ...ends] = /from (\w+) to (\w+)/.exec(range) ?? []
      for (const value of ends) expect(yield* answerTo(key, value)).toBe("accepted")
    })
  )
})

describe("NIGHTSHIFT_EMBEDDED", () => {
  it.effect.each([
    ["true", true],
    ["false", false]
  ] as const)("%s: other databases are ignored: %s", ([embedded, areIgnored]) =>
    Effect.gen(function* () {
      const { listenUrl, readUrl } = yield* Effect.provide(DatabaseConfig, DatabaseConfig.layer)
      expect([listenUrl, readUrl].map(Option.isNone)).toEqual([areIgnored, areIgnored])
    }).pipe(
      Effect.withConfigProvider(
        ConfigProvider.fromMap(
          new Map([
            ["NIGHTSHIFT_EMBEDDED", embedded],
            ["DATABASE_LISTEN_URL", "postgres://one/app"],
            ["DATABASE_READ_URL", "postgres://two/app"]
          ])
        )
      )
    )
  )
})

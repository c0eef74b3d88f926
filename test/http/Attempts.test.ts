import { randomBytes } from "node:crypto"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Option, Redacted } from "effect"
import { Sessions } from "../../src/access/Sessions.js"
import { Tokens } from "../../src/access/Tokens.js"
import { Lifecycle } from "../../src/core/Lifecycle.js"
import { Database } from "../../src/database/Database.js"
import { Migrations } from "../../src/database/Migrations.js"
import { minStrongLength } from "../../src/http/access/Attempts.js"
import { Readiness } from "../../src/http/server/Readiness.js"
import { UploadsApp } from "../../src/http/uploads/UploadsApp.js"
import * as StorageMemory from "../../src/uploads/StorageMemory.js"
import { UploadsConfig } from "../../src/uploads/UploadsConfig.js"
import * as AccessMemory from "../support/AccessMemory.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { type Answer, adminToken, layer, layerOverAll, portsMemory, TestServer } from "./TestServer.js"
import { acme, tokenFor } from "./UploadServer.js"

const jobs = "/api/v1/jobs"
const from = (address: string) => ({ "x-forwarded-for": address })
const guess = (number: number, headers = {}) =>
  Effect.flatMap(TestServer, ({ ask }) => ask("GET", jobs, { token: `guess-${number}`, headers }))

const statuses = (answers: ReadonlyArray<Answer>) => answers.map(({ status }) => status)
const exhausted = (headers = {}) =>
  Effect.forEach(
    Array.from({ length: 30 }, (_, number) => number),
    (number) => guess(number, headers)
  )

describe("wrong tokens", () => {
  it.scopedLive("are refused at once after twenty from one address, on every endpoint", () =>
    Effect.gen(function* () {
      const { admin, ask } = yield* TestServer
      const answers = yield* exhausted()
      expect(statuses(answers)).toEqual([...Array(20).fill(401), ...Array(10).fill(429)])
      expect(Number(answers.at(-1)?.headers["retry-after"])).toBeGreaterThan(0)
      expect(yield* ask("POST", "/api/v1/session", { json: { token: adminToken } })).toMatchObject({ status: 429 })
      // A short token could be guessed, so even the right one is refused.
      expect(yield* admin("GET", jobs)).toMatchObject({ status: 429 })
      expect(yield* ask("GET", jobs)).toMatchObject({ status: 401 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("do not lock out a caller whose token is too long to guess", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      yield* exhausted()
      const token = "x".repeat(minStrongLength)
      expect(yield* ask("GET", jobs, { token })).toMatchObject({ status: 200 })
      expect(yield* ask("POST", "/api/v1/session", { json: { token } })).toMatchObject({ status: 200 })
      expect(yield* guess(31)).toMatchObject({ status: 429 })
    }).pipe(Effect.provide(layer({ adminToken: Option.some(Redacted.make("x".repeat(minStrongLength))) })))
  )

  it.scopedLive("behind a trusted proxy count only for the client that sent them", () =>
    Effect.gen(function* () {
      const { admin, ask } = yield* TestServer
      expect(statuses(yield* exhausted(from("198.51.100.1")))).toContain(429)
      expect(yield* admin("GET", jobs, { headers: from("198.51.100.1") })).toMatchObject({ status: 429 })
      expect(yield* admin("GET", jobs, { headers: from("198.51.100.2") })).toMatchObject({ status: 200 })
      const login = { json: { token: adminToken }, headers: from("198.51.100.2") }
      expect(yield* ask("POST", "/api/v1/session", login)).toMatchObject({ status: 200 })
    }).pipe(Effect.provide(layer({ trustProxy: "127.0.0.0/8" })))
  )

  it.scopedLive("are not attributed to another client by an untrusted header", () =>
    Effect.gen(function* () {
      const answers = yield* Effect.forEach(
        Array.from({ length: 30 }, (_, number) => number),
        (number) => guess(number, from(`198.51.100.${number}`))
      )
      expect(statuses(answers)).toContain(429)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("are limited for the metrics endpoint, too", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      const answers = yield* Effect.forEach(Array.from({ length: 30 }), () =>
        ask("GET", "/metrics", { token: "guess" })
      )
      expect(statuses(answers)).toContain(429)
    }).pipe(Effect.provide(layer({ metricsToken: Option.some(Redacted.make("scrape")) })))
  )
})

/** A server that counts lookups of sessions and tokens. */
const counting = () => {
  const asked = { sessions: 0, tokens: 0 }
  const count = (name: keyof typeof asked) =>
    Effect.sync(() => {
      asked[name] += 1
    })
  const sessions = Layer.effect(
    Sessions,
    Effect.map(Sessions, (all) => ({
      ...all,
      find: (...given: Parameters<typeof all.find>) => Effect.zipRight(count("sessions"), all.find(...given))
    }))
  )
  const tokens = Layer.effect(
    Tokens,
    Effect.map(Tokens, (all) => ({
      ...all,
      verify: (...given: Parameters<typeof all.verify>) => Effect.zipRight(count("tokens"), all.verify(...given))
    }))
  ).pipe(Layer.provide(AccessMemory.tokens))
  const uploads = {
    ports: Layer.merge(Layer.provide(StorageMemory.layer, UploadsConfig.layerDefault), tokens),
    door: Layer.provide(UploadsApp.layer, UploadsConfig.layerDefault)
  }
  return { asked, layer: layerOverAll(Layer.provideMerge(sessions, portsMemory), uploads) }
}

const madeUp = () => randomBytes(32).toString("base64url")

/** Sends this many requests, each with a different secret. */
const flood = (ask: (secret: string) => Effect.Effect<Answer>) =>
  Effect.map(
    Effect.forEach(
      Array.from({ length: 300 }, () => madeUp()),
      ask,
      { concurrency: 20 }
    ),
    statuses
  )

/** The burst, plus the refill while the flood runs. */
const maxLookups = 150

describe("invented secrets", () => {
  it.scopedLive("as session cookies cost a bounded number of statements, and end no session", () => {
    const { asked, layer } = counting()
    return Effect.gen(function* () {
      const { ask } = yield* TestServer
      const { headers } = yield* ask("POST", "/api/v1/session", { json: { token: adminToken } })
      const cookie = headers["set-cookie"]?.[0]?.split(";")[0] ?? ""
      const look = (cookie: string) => ask("GET", jobs, { headers: { cookie } })
      expect(yield* look(cookie)).toMatchObject({ status: 200 })
      const answered = yield* flood((secret) => look(`nightshift_session=${secret}`))
      expect(new Set(answered)).toEqual(new Set([401, 429]))
      expect(asked.sessions).toBeLessThan(maxLookups)
      expect(yield* look(cookie)).toMatchObject({ status: 200 })
      // Repeated and malformed secrets cost no lookup.
      const before = asked.sessions
      expect(yield* look("nightshift_session=guess")).toMatchObject({ status: 401 })
      expect(asked.sessions).toBe(before)
    }).pipe(Effect.provide(layer))
  })

  it.scopedLive("as workspace tokens cost a bounded number of statements, and refuse no workspace", () => {
    const { asked, layer } = counting()
    return Effect.gen(function* () {
      const { ask } = yield* TestServer
      const token = yield* tokenFor(acme)
      const list = (token: string) => ask("GET", "/uploads/acme", { token })
      expect(yield* list(token)).toMatchObject({ status: 200 })
      const answered = yield* flood((secret) => list(`nst_01234567${secret}`))
      expect(new Set(answered)).toEqual(new Set([401, 429]))
      expect(asked.tokens).toBeLessThan(maxLookups)
      expect(yield* list(token)).toMatchObject({ status: 200 })
      const before = asked.tokens
      expect(yield* list("guess")).toMatchObject({ status: 401 })
      expect(asked.tokens).toBe(before)
    }).pipe(Effect.provide(layer))
  })
})

describe("/readyz", () => {
  it.scopedLive("queries the database once for many concurrent requests", () =>
    Effect.gen(function* () {
      let asked = 0
      const database = yield* Database
      const counted = Layer.succeed(Database, {
        ...database,
        mode: Effect.zipLeft(
          database.mode,
          Effect.sync(() => {
            asked += 1
          })
        )
      })
      const { declared, report } = yield* Readiness.pipe(
        Effect.provide(Layer.provide(Readiness.layer, [Lifecycle.layer, Layer.provideMerge(Migrations.layer, counted)]))
      )
      yield* declared
      const reports = yield* Effect.replicateEffect(report, 200).pipe(Effect.withConcurrency(50))
      expect(reports.every(({ ready }) => ready)).toBe(true)
      expect(asked).toBeLessThan(20)
    }).pipe(Effect.provide(TestDatabase.layer))
  )
})

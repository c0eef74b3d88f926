import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Duration, Effect, Option, Redacted } from "effect"
import { Sessions } from "../../src/access/Sessions.js"
import { problems } from "../../src/core/Setting.js"
import { AccessConfig } from "../../src/http/access/AccessConfig.js"
import {
  type Answer,
  adminToken,
  backends,
  layer,
  layerWithoutDatabase,
  TestServer,
  viewerToken
} from "./TestServer.js"

const sameOrigin = { "sec-fetch-site": "same-origin" }
const jobs = { jobs: [{ kind: "greet", payload: 1 }] }

const login = (token: string, headers: Readonly<Record<string, string>> = {}) =>
  Effect.flatMap(TestServer, ({ ask }) => ask("POST", "/api/v1/session", { json: { token }, headers }))

const setCookie = ({ headers }: Answer) => headers["set-cookie"]?.[0] ?? ""

/** The Cookie header that a browser would send back. */
const cookieOf = (answer: Answer) => ({ cookie: setCookie(answer).split(";")[0] ?? "" })

describe.each(backends)("on %s, a session", (_, layer) => {
  it.scopedLive("is opened with a token, lasts, and ends on logout", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      const opened = yield* login(adminToken)
      expect(opened).toMatchObject({ status: 200, json: { role: "admin", until: expect.stringMatching(/Z$/) } })
      expect(setCookie(opened)).toMatch(
        /^nightshift_session=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/
      )
      const headers = { ...cookieOf(opened), ...sameOrigin }
      expect(yield* ask("GET", "/api/v1/session", { headers })).toMatchObject({
        json: { role: "admin", until: expect.stringMatching(/Z$/) }
      })
      expect(yield* ask("GET", "/api/v1/jobs", { headers: cookieOf(opened) })).toMatchObject({ status: 200 })
      expect(yield* ask("POST", "/api/v1/jobs", { json: jobs, headers })).toMatchObject({ status: 201 })
      const [entry] = JSON.parse((yield* ask("GET", "/api/v1/jobs", { headers })).text).jobs
      yield* ask("POST", `/api/v1/jobs/${entry.id}/cancel`, { headers })
      const audit = yield* ask("GET", "/api/v1/audit", { headers })
      expect(audit.json).toMatchObject({ entries: [{ who: "ui:admin", act: "job.cancel" }] })
      const ended = yield* ask("DELETE", "/api/v1/session", { headers })
      expect(ended.status).toBe(204)
      expect(setCookie(ended)).toMatch(/^nightshift_session=; Max-Age=0;/)
      expect(yield* ask("GET", "/api/v1/jobs", { headers })).toMatchObject({ status: 401 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("is used behind a proxy with Basic authentication, whose header is no token and no attempt", () =>
    Effect.gen(function* () {
      const { admin, ask } = yield* TestServer
      const basic = { authorization: `Basic ${Buffer.from("ada:hunter2").toString("base64")}` }
      const cookie = cookieOf(yield* login(adminToken))
      // More than the attempts that an address has.
      for (let number = 0; number < 25; number += 1) {
        expect((yield* ask("GET", "/api/v1/session", { headers: { ...basic, ...cookie } })).status).toBe(200)
        expect((yield* ask("GET", "/api/v1/session", { headers: basic })).status).toBe(401)
      }
      expect((yield* admin("GET", "/api/v1/session")).status).toBe(200)
      const wrong = { authorization: "Bearer guess", ...cookie }
      expect((yield* ask("GET", "/api/v1/session", { headers: wrong })).status).toBe(401)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("of a viewer reads, logs out, and changes nothing", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      const headers = { ...cookieOf(yield* login(viewerToken)), ...sameOrigin }
      expect(yield* ask("GET", "/api/v1/session", { headers })).toMatchObject({ json: { role: "viewer" } })
      expect(yield* ask("POST", "/api/v1/jobs", { json: jobs, headers })).toMatchObject({
        status: 403,
        json: { error: { tag: "Forbidden" } }
      })
      expect(yield* ask("DELETE", "/api/v1/session", { headers })).toMatchObject({ status: 204 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("accepts changes only from pages of this service", () =>
    Effect.gen(function* () {
      const { ask, port } = yield* TestServer
      const cookie = cookieOf(yield* login(adminToken))
      const post = (more: Readonly<Record<string, string>>) =>
        ask("POST", "/api/v1/jobs", { json: jobs, headers: { ...cookie, ...more } })
      const strangers: ReadonlyArray<Readonly<Record<string, string>>> = [
        {},
        { "sec-fetch-site": "cross-site" },
        { "sec-fetch-site": "same-site" },
        { "sec-fetch-site": "none" },
        { "sec-fetch-site": "cross-site", origin: `http://127.0.0.1:${port}` },
        { origin: "https://evil.example" },
        { origin: `http://127.0.0.1:${port + 1}` },
        { origin: "null" }
      ]
      for (const headers of strangers) {
        expect(yield* post(headers)).toMatchObject({ status: 403, json: { error: { tag: "CrossSiteRefused" } } })
      }
      expect(yield* post({ origin: `http://127.0.0.1:${port}` })).toMatchObject({ status: 201 })
      const proxied = { origin: "https://jobs.example", "x-forwarded-host": "jobs.example" }
      expect(yield* post(proxied)).toMatchObject({ status: 201 })
      // An explicit token cannot be sent by accident, so it is accepted cross-site.
      const headers = { "sec-fetch-site": "cross-site" }
      expect(yield* ask("POST", "/api/v1/jobs", { json: jobs, token: adminToken, headers })).toMatchObject({
        status: 201
      })
    }).pipe(Effect.provide(layer()))
  )
})

describe("the environment", () => {
  const read = (name: string) =>
    Effect.map(AccessConfig, ({ environment }) => Option.getOrNull(environment)).pipe(
      Effect.provide(AccessConfig.layer),
      Effect.catchAll((error) => Effect.succeed(problems(error))),
      Effect.withConfigProvider(ConfigProvider.fromMap(new Map([["NIGHTSHIFT_ENVIRONMENT", name]])))
    )

  it.scopedLive("is part of the session, and null if it has no name", () =>
    Effect.gen(function* () {
      const named = Effect.provide(login(viewerToken), layer({ environment: Option.some("production") }))
      expect((yield* named).json).toMatchObject({ role: "viewer", environment: "production" })
      const { admin } = yield* TestServer
      expect((yield* admin("GET", "/api/v1/session")).json).toEqual({
        role: "admin",
        until: null,
        environment: null,
        fleet: null
      })
    }).pipe(Effect.provide(layer()))
  )

  it.effect("has a short name without marks", () =>
    Effect.gen(function* () {
      expect(yield* read("  Prod EU-1  ")).toBe("Prod EU-1")
      expect(yield* read("")).toBe(null)
      for (const name of ["x".repeat(33), "prod\u202eudu", "<b>prod</b>"]) {
        expect(yield* read(name)).toEqual([
          `NIGHTSHIFT_ENVIRONMENT: expected a name of at most 32 letters, digits, spaces, dots, dashes and underscores, got ${JSON.stringify(name)}`
        ])
      }
    })
  )
})

describe("a login", () => {
  it.scopedLive("is refused with an unknown token, and from pages of other sites", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      for (const token of ["", "guess", `${adminToken} `, adminToken.toUpperCase()]) {
        const refused = yield* login(token)
        expect(refused).toMatchObject({ status: 401, json: { error: { tag: "Unauthorized" } } })
        expect(refused.headers["set-cookie"]).toBeUndefined()
        expect(refused.text).not.toContain("guess")
      }
      expect(yield* login(adminToken, { "sec-fetch-site": "cross-site" })).toMatchObject({ status: 403 })
      expect(yield* login(adminToken, { origin: "https://evil.example" })).toMatchObject({ status: 403 })
      const form = { body: `token=${adminToken}`, headers: { "content-type": "application/x-www-form-urlencoded" } }
      expect(yield* ask("POST", "/api/v1/session", form)).toMatchObject({ status: 415 })
      expect(yield* ask("POST", "/api/v1/session", { json: {} })).toMatchObject({ status: 400 })
      const forged = { cookie: "nightshift_session=guess" }
      expect(yield* ask("GET", "/api/v1/jobs", { headers: forged })).toMatchObject({ status: 401 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("limits attempts to guess a token", () =>
    Effect.gen(function* () {
      for (let number = 0; number < 20; number += 1) expect((yield* login(`guess-${number}`)).status).toBe(401)
      const refused = yield* login(adminToken)
      expect(refused).toMatchObject({ status: 429, json: { error: { tag: "TooManyRequests" } } })
      expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("ends when its token is changed", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      const { begin } = yield* Sessions
      const { secret } = yield* begin("admin", Redacted.make("the token of yesterday"), Duration.hours(1))
      const headers = { cookie: `nightshift_session=${Redacted.value(secret)}` }
      expect(yield* ask("GET", "/api/v1/jobs", { headers })).toMatchObject({ status: 401 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("sets a secure cookie when the visitor uses TLS", () =>
    Effect.gen(function* () {
      const secure = yield* login(adminToken, { "x-forwarded-proto": "https" })
      expect(setCookie(secure)).toMatch(/; Secure/)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("is refused when no token is set", () =>
    Effect.gen(function* () {
      expect(yield* login("guess")).toMatchObject({ status: 401 })
    }).pipe(Effect.provide(layer({ adminToken: Option.none(), viewerToken: Option.none() })))
  )
})

describe("a process without a database", () => {
  it.scopedLive("refuses logins", () =>
    Effect.gen(function* () {
      expect(yield* login(adminToken)).toMatchObject({ status: 503, json: { error: { tag: "DatabaseOff" } } })
    }).pipe(Effect.provide(layerWithoutDatabase()))
  )
})

describe("the rate of a token's requests", () => {
  it.scopedLive("is limited, whatever agents it names", () =>
    Effect.gen(function* () {
      const { admin, viewer } = yield* TestServer
      const session = (agent: string) => admin("GET", "/api/v1/session", { headers: { "x-agent": agent } })
      for (let number = 0; number < 4; number += 1) expect((yield* session(`agent ${number}`)).status).toBe(200)
      expect((yield* session("another agent")).status).toBe(429)
      expect((yield* viewer("GET", "/api/v1/session")).status).toBe(200)
    }).pipe(Effect.provide(layer({ apiRate: 2 })))
  )

  it.scopedLive("is limited, with a retry delay", () =>
    Effect.gen(function* () {
      const { admin, viewer } = yield* TestServer
      for (let number = 0; number < 4; number += 1) {
        expect(yield* viewer("GET", "/api/v1/session")).toMatchObject({ status: 200 })
      }
      const refused = yield* viewer("GET", "/api/v1/session")
      expect(refused).toMatchObject({ status: 429, json: { error: { tag: "TooManyRequests" } } })
      expect(refused.headers["retry-after"]).toBe("1")
      expect(yield* admin("GET", "/api/v1/session")).toMatchObject({ status: 200 })
      expect(yield* admin("GET", "/healthz")).toMatchObject({ status: 200 })
    }).pipe(Effect.provide(layer({ apiRate: 2 })))
  )
})

import { describe, expect, it, layer as layerOf } from "@effect/vitest"
import { Effect, Layer, Logger, Option, Redacted } from "effect"
import { adminToken, layer, layerWithoutDatabase, TestServer, viewerToken } from "./TestServer.js"

const id = "0198c0de-0000-7000-8000-000000000001"
const json = { jobs: [{ kind: "greet", payload: 1 }] }

const workerToken = "worker-sesame-worker-sesame"
const withWorkers = { workerTokens: Option.some(Redacted.make(`${workerToken}:default`)) }

/** Every route, with the admin's status on an empty queue. */
const routes: ReadonlyArray<readonly [method: string, path: string, status: number, json?: unknown]> = [
  ["POST", "/api/v1/jobs", 201, json],
  ["GET", "/api/v1/jobs", 200],
  ["GET", `/api/v1/jobs/${id}`, 404],
  ["POST", `/api/v1/jobs/${id}/cancel`, 404],
  ["POST", `/api/v1/jobs/${id}/requeue`, 404],
  ["POST", `/api/v1/jobs/${id}/run-now`, 404],
  ["DELETE", `/api/v1/jobs/${id}`, 404],
  ["PATCH", `/api/v1/jobs/${id}`, 404, { priority: 1 }],
  ["POST", "/api/v1/jobs/bulk", 202, { action: "delete", filter: { queue: "q" } }],
  ["POST", "/api/v1/jobs/bulk", 200, { action: "delete", filter: { queue: "q" }, dryRun: true }],
  ["GET", "/api/v1/jobs/groups?state=dead", 200],
  ["GET", "/api/v1/operations", 200],
  ["GET", `/api/v1/operations/${id}`, 404],
  ["POST", `/api/v1/operations/${id}/cancel`, 404],
  ["GET", "/api/v1/audit", 200],
  ["GET", "/api/v1/session", 200],
  ["GET", "/api/v1/queues", 200],
  ["GET", "/api/v1/limits", 200],
  ["PATCH", "/api/v1/limits/github", 404, { rate: 2 }],
  ["POST", "/api/v1/limits/github/drain", 404],
  ["POST", "/api/v1/work/claim", 200, { worker: { id: "w" }, queues: ["default"] }],
  ["POST", "/api/v1/work/heartbeat", 200, { worker: { id: "w" }, jobs: [] }],
  ["POST", "/api/v1/work/finish", 400, { worker: { id: "w" }, jobs: [] }],
  ["GET", "/api/v1/uploads", 200],
  ["POST", "/api/v1/workspaces/acme/tokens", 201],
  ["GET", "/api/v1/workspaces/acme/tokens", 200],
  ["DELETE", `/api/v1/workspaces/acme/tokens/${id}`, 404],
  ["GET", "/api/v1/nowhere", 404],
  ["GET", "/api", 404]
]

// One server for all routes. Wrong tokens are counted per client, so each test is another client.
layerOf(Layer.orDie(layer({ ...withWorkers, trustProxy: "127.0.0.0/8" })), { excludeTestServices: true })(
  "access by role, for",
  (it) => {
    it.effect.each(routes)("%s %s", (route) =>
      Effect.gen(function* () {
        const [method, path, status, json] = route
        const { ask } = yield* TestServer
        const headers = { "x-forwarded-for": `198.51.100.${routes.indexOf(route)}` }
        const asked = json === undefined ? { headers } : { headers, json }
        for (const token of [undefined, "sesame", "", `${adminToken} `.repeat(2)]) {
          const refused = yield* ask(method, path, { ...asked, token })
          expect(refused).toMatchObject({ status: 401, json: { error: { tag: "Unauthorized" } } })
          expect(refused.headers["www-authenticate"]).toBe("Bearer")
          expect(refused.text).not.toContain("sesame")
        }
        const viewed = yield* ask(method, path, { ...asked, token: viewerToken })
        if (method === "GET") expect(viewed.status).toBe(status)
        else expect(viewed).toMatchObject({ status: 403, json: { error: { tag: "Forbidden" } } })
        expect((yield* ask(method, path, { ...asked, token: adminToken })).status).toBe(status)
        const worked = yield* ask(method, path, { ...asked, token: workerToken })
        if (path.startsWith("/api/v1/work/") || path === "/api/v1/session") expect(worked.status).toBe(status)
        else expect(worked).toMatchObject({ status: 403, json: { error: { tag: "Forbidden" } } })
      })
    )
  }
)

describe("access by role", () => {
  it.scopedLive("says whether the token is missing or wrong, and the same about every wrong token", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      const said = (headers: { readonly token?: string }) =>
        Effect.map(ask("GET", "/api/v1/jobs", headers), ({ text }) => text)
      const missing = yield* said({})
      const wrong = yield* said({ token: "sesame" })
      expect(missing).toContain("Send the token")
      expect(wrong).toContain("The token is not valid")
      expect(yield* said({ token: adminToken.slice(0, -1) })).toBe(wrong)
      expect(yield* said({ token: viewerToken.slice(0, -1) })).toBe(wrong)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("lets anonymous callers read the contract and change nothing", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      expect(yield* ask("GET", "/api/v1/openapi.json")).toMatchObject({ status: 200, json: { openapi: "3.1.0" } })
      expect(yield* ask("POST", "/api/v1/openapi.json")).toMatchObject({ status: 401 })
      expect(yield* ask("GET", "/api/v1/openapi.json/../jobs")).toMatchObject({ status: 401 })
      expect(yield* ask("GET", "/api/v1/jobs?/api/v1/openapi.json")).toMatchObject({ status: 401 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("refuses everyone when no token is set, and names the setting", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      for (const token of [undefined, "", "guess"]) {
        const refused = yield* ask("GET", "/api/v1/jobs", { token })
        expect(refused).toMatchObject({
          status: 401,
          json: { error: { message: expect.stringContaining("Set NIGHTSHIFT_ADMIN_TOKEN") } }
        })
      }
      expect(yield* ask("GET", "/healthz")).toMatchObject({ status: 200 })
    }).pipe(Effect.provide(layer({ adminToken: Option.none(), viewerToken: Option.none() })))
  )

  it.scopedLive("lets a viewer read when no admin token is set", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      expect(yield* ask("GET", "/api/v1/jobs", { token: viewerToken })).toMatchObject({ status: 200 })
      expect(yield* ask("POST", "/api/v1/jobs", { token: viewerToken, json })).toMatchObject({ status: 403 })
      expect(yield* ask("GET", "/api/v1/jobs", { token: adminToken })).toMatchObject({ status: 401 })
    }).pipe(Effect.provide(layer({ adminToken: Option.none() })))
  )
})

describe("trusted proxies that include every address", () => {
  it.scopedLive("are reported when the server starts", () =>
    Effect.gen(function* () {
      const warnings = (trustProxy: string) =>
        Effect.suspend(() => {
          const lines: Array<string> = []
          const logger = Logger.replace(
            Logger.defaultLogger,
            Logger.make(({ message }) => void lines.push(String(message)))
          )
          return Effect.as(Layer.build(Layer.provide(layer({ trustProxy }), logger)), lines)
        })
      expect(yield* warnings("10.0.0.0/8")).toEqual([])
      expect(yield* warnings("0.0.0.0/0")).toEqual([expect.stringContaining("NIGHTSHIFT_TRUST_PROXY includes half")])
    })
  )
})

describe("the Host header on loopback", () => {
  it.scopedLive("must name this machine, to prevent DNS rebinding", () =>
    Effect.gen(function* () {
      const { admin, ask, port } = yield* TestServer
      for (const host of [
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1"
      ]) {
        const refused = yield* admin("GET", "/api/v1/jobs", { headers: { host } })
        expect(refused).toMatchObject({ status: 403, json: { error: { tag: "HostRefused" } } })
      }
      for (const host of [`localhost:${port}`, "LOCALHOST", "127.0.0.1", "127.1.2.3:1", "[::1]:9", "[::1]"]) {
        expect(yield* admin("GET", "/api/v1/jobs", { headers: { host } })).toMatchObject({ status: 200 })
      }
      for (const path of [
        "/metrics",
        "/readyz",
        "/docs",
        "/DOCS",
        "//docs",
        "/",
        "/ui",
        "/ui/",
        "/ui/jobs",
        "/ui/assets/none.js"
      ]) {
        expect(yield* ask("GET", path, { headers: { host: "evil.example" } }), path).toMatchObject({
          status: 403,
          json: { error: { tag: "HostRefused" } }
        })
        expect((yield* ask("GET", path)).status, path).not.toBe(403)
      }
      expect(yield* ask("GET", "/healthz", { headers: { host: "probe.internal" } })).toMatchObject({ status: 200 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("may be any name when other machines are let in", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const answer = yield* admin("GET", "/api/v1/jobs", { headers: { host: "jobs.example" } })
      expect(answer).toMatchObject({ status: 200 })
    }).pipe(Effect.provide(layer({ host: "0.0.0.0" })))
  )
})

describe("the API of a process without a database", () => {
  it.scopedLive("reports that queues, workers and uploads are off", () =>
    Effect.gen(function* () {
      const { admin, ask } = yield* TestServer
      for (const [method, path] of routes) {
        expect(yield* ask(method, path)).toMatchObject({
          status: 503,
          json: {
            error: { tag: "DatabaseOff", message: expect.stringContaining("queues, workers and uploads are off") }
          }
        })
      }
      const refused = yield* admin("GET", "/api/v1/jobs", { headers: { host: "evil.example" } })
      expect(refused).toMatchObject({ status: 403 })
      expect(yield* ask("GET", "/healthz")).toMatchObject({ status: 200 })
    }).pipe(Effect.provide(layerWithoutDatabase()))
  )
})

import * as Net from "node:net"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Lifecycle } from "../../src/core/Lifecycle.js"
import {
  DatabaseConflict,
  type DatabaseError,
  DatabaseFault,
  DatabaseUnavailable
} from "../../src/database/DatabaseError.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import { Transactions } from "../../src/queue/Transactions.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import * as RateLimitsMemory from "../../src/rate-limits/RateLimitsMemory.js"
import * as SchedulesMemory from "../../src/schedule/SchedulesMemory.js"
import * as RawClient from "../support/RawClient.js"
import { type Asked, adminToken, backends, layer, layerOver, onSharedServers, TestServer } from "./TestServer.js"

const job = JSON.stringify({ jobs: [{ kind: "greet", payload: 1 }] })
const asJson = { "content-type": "application/json" }
const post = (asked: Asked) => Effect.flatMap(TestServer, ({ admin }) => admin("POST", "/api/v1/jobs", asked))

describe.concurrent("a target", () => {
  it.scopedLive("may name the server before the path, as some proxies write it", () =>
    Effect.gen(function* () {
      const { port } = yield* TestServer
      const head = `host: 127.0.0.1\r\nauthorization: Bearer ${adminToken}\r\nconnection: close`
      const answerTo = (method: string, target: string) =>
        Effect.scoped(
          Effect.gen(function* () {
            const client = yield* RawClient.make(port)
            yield* client.send(`${method} ${target} HTTP/1.1\r\n${head}\r\ncontent-length: 0\r\n\r\n`)
            return (yield* client.readOut).replace(/^date: .*$/im, "")
          })
        )
      expect(yield* answerTo("GET", "/api/v1/jobs?limit=1")).toMatch(/^HTTP\/1.1 200 /)
      const targets = ["/api/v1/jobs?limit=1", "/api/v1/jobs?limit=x", "/hooks/nobody", "/nowhere", "/"]
      for (const server of ["http://jobs.example.com", "HTTP://127.0.0.1:80", "https://jobs.example.com:8443"]) {
        for (const target of targets)
          expect(yield* answerTo("GET", server + target)).toBe(yield* answerTo("GET", target))
        expect(yield* answerTo("GET", `${server}?a=b`)).toBe(yield* answerTo("GET", "/?a=b"))
      }
    }).pipe(Effect.provide(layer()))
  )
})

describe.concurrent("a body", () => {
  it.scopedLive("is accepted as JSON in UTF-8, however its type is written", () =>
    Effect.gen(function* () {
      for (const type of ["application/json", "Application/JSON; charset=UTF-8", 'application/json;charset="utf-8"']) {
        expect(yield* post({ body: job, headers: { "content-type": type } })).toMatchObject({ status: 201 })
      }
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("is refused when it declares another type", () =>
    Effect.gen(function* () {
      const others: ReadonlyArray<Record<string, string>> = [
        {},
        { "content-type": "text/plain" },
        { "content-type": "application/x-www-form-urlencoded" },
        { "content-type": "multipart/form-data; boundary=x" },
        { "content-type": "application/json; charset=latin1" },
        { "content-type": "application/json-seq" },
        { ...asJson, "content-encoding": "gzip" }
      ]
      for (const headers of others) {
        const refused = yield* post({ body: job, headers })
        expect(refused).toMatchObject({ status: 415, json: { error: { tag: "ContentTypeRefused" } } })
      }
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("is refused when it is not JSON", () =>
    Effect.gen(function* () {
      const broken = [Buffer.from('{"jobs":'), Buffer.from(""), Buffer.from("hello"), Buffer.from([0x22, 0xff, 0x22])]
      for (const body of broken) {
        const refused = yield* post({ body, headers: asJson })
        expect(refused).toMatchObject({
          status: 400,
          json: { error: { tag: "BadRequest", message: expect.stringContaining("is not JSON") } }
        })
      }
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("is refused when it is nested too deeply, wherever the nested value is", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const nested = (levels: number) => `${"[".repeat(levels)}${"]".repeat(levels)}`
      for (const [method, path, head] of [
        ["POST", "/api/v1/jobs", ""],
        ["POST", "/api/v1/jobs", '{"kind":"greet","payload":'],
        ["PATCH", "/api/v1/jobs/0198c0de-0000-7000-8000-000000000000", '{"payload":'],
        ["PATCH", "/api/v1/queues/mail", '{"retainDone":']
      ] as const) {
        const body = `${head}${nested(5_000)}${head === "" ? "" : "}"}`
        expect((yield* admin(method, path, { body, headers: asJson })).json).toEqual({
          error: { tag: "BadRequest", message: "The body must not be nested more than 1020 levels deep." }
        })
      }
      const most = `{"jobs":[{"kind":"greet","payload":${nested(1_000)}}]}`
      expect(yield* post({ body: most, headers: asJson })).toMatchObject({ status: 201 })
      const more = `{"jobs":[{"kind":"greet","payload":${nested(1_001)}}]}`
      expect(yield* post({ body: more, headers: asJson })).toMatchObject({
        status: 400,
        json: { error: { tag: "InvalidJob", field: "jobs[0].payload" } }
      })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("is refused when it is too large, declared or not", () =>
    Effect.gen(function* () {
      const piece = Buffer.alloc(1024 * 1024, " ")
      const pieces = Array.from({ length: 9 }, () => piece)
      for (const body of [pieces, Buffer.concat(pieces)]) {
        const refused = yield* post({ body, headers: asJson })
        expect(refused).toMatchObject({ status: 413, json: { error: { tag: "BodyTooLarge" } } })
      }
      const padded = [Buffer.from(job), ...pieces.slice(0, 7)]
      expect(yield* post({ body: padded, headers: asJson })).toMatchObject({ status: 201 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("that never ends neither blocks other requests nor the shutdown", () =>
    Effect.gen(function* () {
      const { admin, port } = yield* TestServer
      const head = `POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admin-sesame\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{`
      yield* Effect.acquireRelease(
        Effect.async<Net.Socket>((resume) => {
          const socket = Net.connect(port, "127.0.0.1", () => socket.write(head, () => resume(Effect.succeed(socket))))
        }),
        (socket) => Effect.sync(() => socket.destroy())
      )
      expect(yield* admin("GET", "/api/v1/jobs")).toMatchObject({ status: 200, json: { total: { count: 0 } } })
    }).pipe(Effect.provide(layer()))
  )
})

describe("a path", () => {
  it.scopedLive("that does not exist gets a standard error, without its query", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      for (const [method, path] of [
        ["PUT", "/api/v1/jobs"],
        ["GET", "/api/v2/jobs"],
        ["GET", "/api/v1/jobs/a/b/c"]
      ] as const) {
        expect((yield* admin(method, `${path}?x=<script>`)).json).toEqual({
          error: { tag: "NotFound", message: expect.stringContaining(`No route matches ${method} ${path}.`) }
        })
      }
      expect((yield* admin("GET", "/api/v1/jobs/%zz")).status).toBe(404)
      expect((yield* admin("GET", "/apiary")).status).toBe(404)
    }).pipe(Effect.provide(layer()))
  )
})

const memory = SchedulesMemory.layer.pipe(
  Layer.provideMerge(QueueMemory.layer),
  Layer.provideMerge(Transactions.layerMemory),
  Layer.provideMerge(Wakeups.layer)
)

const failing = (error: DatabaseError) =>
  Layer.effect(
    Queue,
    Effect.map(Queue, (queue) => ({ ...queue, enqueue: () => Effect.fail(error) }))
  ).pipe(Layer.provideMerge(memory))

describe("the first request", () => {
  it.scopedLive("does not stop the routes from loading when its client disconnects", () =>
    Effect.gen(function* () {
      const { admin, port } = yield* TestServer
      const { send, vanish } = yield* RawClient.make(port)
      yield* send(`GET /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${adminToken}\r\n\r\n`)
      yield* vanish
      expect(yield* admin("GET", "/api/v1/jobs")).toMatchObject({ status: 200 })
    }).pipe(Effect.provide(layer()))
  )
})

describe("a database error", () => {
  const detail = 'relation "secret" does not exist at 10.1.2.3'
  it.scopedLive.each([
    [503, new DatabaseUnavailable({ detail, nothingWritten: true }), /nothing was changed/],
    [503, new DatabaseUnavailable({ detail, nothingWritten: false }), /may have been made/],
    [409, new DatabaseConflict({ detail }), /conflicts with/],
    [500, new DatabaseFault({ detail }), /log/]
  ] as const)("is logged and not returned: %i", ([status, error, says]) =>
    Effect.gen(function* () {
      const answer = yield* post({ body: job, headers: asJson })
      expect(answer).toMatchObject({
        status,
        json: { error: { tag: error._tag, message: expect.stringMatching(says) } }
      })
      expect(answer.headers["retry-after"]).toBe(status === 503 ? "1" : undefined)
      expect(answer.text).not.toMatch(/secret|10\.1/)
    }).pipe(Effect.provide(layerOver(Layer.merge(failing(error), RateLimitsMemory.layer))))
  )
})

describe("GET /api/v1/openapi.json", () => {
  it.scopedLive("describes every route, its errors and its token", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const { status, text } = yield* admin("GET", "/api/v1/openapi.json")
      expect(status).toBe(200)
      const { components, openapi, paths, security } = JSON.parse(text)
      expect(openapi).toMatch(/^3\./)
      expect(Object.keys(paths)).toEqual(
        expect.arrayContaining([
          "/api/v1/audit",
          "/api/v1/events",
          "/api/v1/jobs",
          "/api/v1/jobs/bulk",
          "/api/v1/jobs/groups",
          "/api/v1/jobs/{id}",
          "/api/v1/jobs/{id}/cancel",
          "/api/v1/operations/{id}",
          "/api/v1/pods",
          "/api/v1/queues",
          "/api/v1/session"
        ])
      )
      expect(Object.keys(paths["/api/v1/jobs"].post.responses).sort()).toEqual([
        "201",
        "400",
        "401",
        "403",
        "409",
        "413",
        "415",
        "422",
        "429",
        "503"
      ])
      expect(components.schemas.JobToEnqueue.required).toEqual(["kind", "payload"])
      expect(security).toEqual([{ token: [] }, { login: [] }])
      expect(Object.keys(components.securitySchemes)).toEqual(["token", "login"])
      expect(paths["/api/v1/session"].post.security).toEqual([])
      expect(paths["/api/v1/jobs"].get.security).toEqual(security)
      expect(text.includes("HttpApiDecodeError")).toBe(false)
      const refs = [...text.matchAll(/"\$ref":"#\/components\/schemas\/([^"]+)"/g)].map(([, name]) => name ?? "")
      expect(refs.filter((name) => components.schemas[name] === undefined)).toEqual([])
    }).pipe(Effect.provide(layer()))
  )
})

onSharedServers(backends.slice(0, 1), "a body that is refused before it ends", (it) => {
  it.scoped.each([
    ["without a token", "POST /api/v1/jobs"],
    ["at a login", "POST /api/v1/session"],
    ["under no route", "POST /nowhere"],
    ["where none is expected", "GET /healthz"],
    ["at the metrics", "GET /metrics"],
    ["at the pages", "POST /ui/"],
    ["at uploads", "POST /uploads/acme"],
    ["with a token, and too large", `POST /api/v1/jobs HTTP/1.1\r\nauthorization: Bearer ${adminToken}`]
  ] as const)("%s is not read without bound", ([, request]) =>
    Effect.gen(function* () {
      const { port } = yield* TestServer
      const { said, send } = yield* RawClient.make(port)
      const first = request.includes("HTTP/1.1") ? request : `${request} HTTP/1.1`
      yield* send(`${first}\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`)
      const piece = Buffer.concat([Buffer.from("100000\r\n"), Buffer.alloc(1024 * 1024, " "), Buffer.from("\r\n")])
      let sent = 0
      while (sent < 128 && (yield* send(piece))) sent += 1
      expect(yield* said(/^HTTP\/1\.1 \d{3}/)).not.toBeNull()
      expect(sent).toBeLessThan(64)
    })
  )
})

describe("a process that drains", () => {
  const request = (method: string, path: string, body = "") =>
    `${method} ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${adminToken}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`

  it.scopedLive("answers one more request of a kept connection, and tells the client to leave", () =>
    Effect.gen(function* () {
      const { admin, port } = yield* TestServer
      const lifecycle = yield* Lifecycle
      const client = yield* RawClient.make(port)
      yield* client.send(request("GET", "/api/v1/jobs"))
      expect((yield* client.said(/"total":\{"count":0[\s\S]*\}$/))?.input).toContain("Connection: keep-alive")
      yield* lifecycle.drain
      // In one packet: what follows the first request is refused, not run without an answer.
      yield* client.send(request("POST", "/api/v1/jobs", job).repeat(3))
      const answers = yield* client.said(
        / 201 Created[\s\S]* 503 Service Unavailable[\s\S]* 503 Service Unavailable[\s\S]*\r\n\r\n/
      )
      expect(answers?.[0]).toContain("Connection: close")
      expect(yield* admin("GET", "/api/v1/jobs")).toMatchObject({ json: { total: { count: 1 } } })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("refuses claims of remote workers, which would repeat an answer without jobs at once", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const lifecycle = yield* Lifecycle
      const json = { worker: { id: "one" }, queues: ["default"], waitSeconds: 50 }
      yield* lifecycle.drain
      const refused = yield* admin("POST", "/api/v1/work/claim", { json })
      expect(refused).toMatchObject({ status: 503, json: { error: { tag: "ClaimsRefused" } } })
      expect(refused.headers["retry-after"]).toBe("1")
    }).pipe(Effect.provide(layer()))
  )
})

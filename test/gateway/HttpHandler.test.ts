import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Duration, Effect, Exit, Layer, Redacted, type Scope } from "effect"
import { GatewayConfig } from "../../src/gateway/config/GatewayConfig.js"
import { SafeFetch } from "../../src/gateway/fetch/SafeFetch.js"
import { AddressRefused } from "../../src/gateway/fetch/UpstreamErrors.js"
import * as HttpHandler from "../../src/gateway/HttpHandler.js"
import type { Update } from "../../src/gateway/telegram/TelegramUpdate.js"
import { message } from "./Updates.js"

/** An upstream server that answers as the test says. */
const upstream = (listener: Http.RequestListener): Effect.Effect<number, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.async<Http.Server>((resume) => {
        const server = Http.createServer(listener).listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) =>
        Effect.sync(() => {
          server.close()
          server.closeAllConnections()
        })
    ),
    (server) => (server.address() as AddressInfo).port
  )

const answering = (status: number, body: string | Buffer, headers: Record<string, string> = {}) =>
  upstream((_, response) => void response.writeHead(status, headers).end(body))

const safeFetch = (allow: string) =>
  SafeFetch.layer.pipe(
    Layer.provide(GatewayConfig.layer),
    Layer.provide(Layer.setConfigProvider(ConfigProvider.fromMap(new Map([["HTTP_HANDLER_ALLOW", allow]]))))
  )

interface Asked {
  readonly timeout?: Duration.DurationInput
  readonly redirects?: number
  readonly allow?: string
  readonly update?: Update
}

/** The handler's answer to an update, calling this url. */
const handle = (url: string, { allow = "127.0.0.1", redirects = 0, timeout = "5 seconds", update }: Asked = {}) =>
  Effect.flatMap(
    HttpHandler.make({ _tag: "Http", url: new URL(url), timeout: Duration.decode(timeout), redirects }),
    ({ handle }) =>
      handle({
        bot: { slug: "b", token: Redacted.make("t") },
        update: update ?? (message(1, "hi") as Update),
        job: undefined
      })
  ).pipe(Effect.provide(safeFetch(allow)))

const failure = (url: string, asked: Asked = {}) =>
  Effect.map(Effect.exit(handle(url, asked)), (exit) =>
    Exit.match(exit, {
      onSuccess: (reply) => `no failure: ${JSON.stringify(reply)}`,
      onFailure: (cause) => (cause._tag === "Fail" ? Object(cause.error)._tag : cause._tag)
    })
  )

describe("a bot with a url", () => {
  it.scopedLive("posts the update as JSON and sends the text of the answer", () =>
    Effect.gen(function* () {
      let seen = ""
      const port = yield* upstream((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk) => chunks.push(chunk))
        request.on("end", () => {
          seen = `${request.method} ${request.headers["content-type"]} ${Buffer.concat(chunks)}`
          response.end(JSON.stringify({ text: `heard: ${"é".repeat(3)}` }))
        })
      })
      const update = message(5, "ünïcode") as Update
      expect(yield* handle(`http://127.0.0.1:${port}/hook?x=1`, { update })).toEqual({ text: "heard: ééé" })
      expect(seen).toBe(`POST application/json ${JSON.stringify(update)}`)
    })
  )

  it.scopedLive("sends nothing for 204 and for an empty text", () =>
    Effect.gen(function* () {
      expect(yield* handle(`http://127.0.0.1:${yield* answering(204, "")}`)).toBeUndefined()
      expect(yield* handle(`http://127.0.0.1:${yield* answering(200, '{"text":""}')}`)).toBeUndefined()
    })
  )

  it.scopedLive("sends at most one message's length, without splitting a character", () =>
    Effect.gen(function* () {
      const text = `${"x".repeat(4095)}😀`
      const reply = yield* handle(`http://127.0.0.1:${yield* answering(200, JSON.stringify({ text }))}`)
      expect(reply).toEqual({ text: "x".repeat(4095) })
    })
  )

  it.scopedLive("distinguishes the reasons for a missing answer", () =>
    Effect.gen(function* () {
      const at = (port: number) => `http://127.0.0.1:${port}/`
      expect(yield* failure(at(yield* answering(500, "{}")))).toBe("UpstreamRefused")
      expect(yield* failure(at(yield* answering(404, "")))).toBe("UpstreamRefused")
      expect(yield* failure(at(yield* answering(200, "")))).toBe("UpstreamEmpty")
      expect(yield* failure(at(yield* answering(200, "hello")))).toBe("UpstreamNotJson")
      expect(yield* failure(at(yield* answering(200, "{}", { "content-encoding": "gzip" })))).toBe("UpstreamNotJson")
      expect(yield* failure(at(yield* answering(200, '{"txt":1}')))).toBe("UpstreamWithoutText")
      expect(yield* failure(at(yield* answering(200, "[1]")))).toBe("UpstreamWithoutText")
      expect(yield* failure(at(1))).toBe("UpstreamUnreachable")
      expect(yield* failure(at(yield* upstream((request) => void request.socket.destroy())))).toBe(
        "UpstreamUnreachable"
      )
      expect(yield* failure(at(yield* answering(429, "", { "retry-after": "7" })))).toBe("NonReplyOutcome")
      expect(yield* failure("http://nobody.invalid/")).toBe("UpstreamUnreachable")
    })
  )

  it.scopedLive("times out waiting for the head, for the body and for an endless body", () =>
    Effect.gen(function* () {
      const silent = yield* upstream(() => {})
      expect(yield* failure(`http://127.0.0.1:${silent}`, { timeout: "50 millis" })).toBe("UpstreamTimeout")
      const halting = yield* upstream((_, response) => void response.writeHead(200).write('{"te'))
      expect(yield* failure(`http://127.0.0.1:${halting}`, { timeout: "50 millis" })).toBe("UpstreamTimeout")
      let written = 0
      const endless = yield* upstream((_, response) => {
        const more = () => {
          while (!response.destroyed && response.write(Buffer.alloc(64 * 1024, " "))) written += 64 * 1024
        }
        response.on("drain", more)
        more()
      })
      expect(yield* failure(`http://127.0.0.1:${endless}`)).toBe("UpstreamTooLarge")
      expect(written).toBeLessThan(32 * 1024 * 1024)
    })
  )

  it.scopedLive("sends the next update over a new connection when the upstream closed the old one", () =>
    Effect.gen(function* () {
      const port = yield* upstream((request, response) => {
        response.end('{"text":"x"}', () => setImmediate(() => request.socket.destroy()))
      })
      for (let round = 0; round < 5; round += 1) {
        expect(yield* handle(`http://127.0.0.1:${port}`)).toEqual({ text: "x" })
      }
    })
  )
})

describe("a url that resolves to a private address", () => {
  it.scopedLive("is refused in every notation of the address", () =>
    Effect.gen(function* () {
      let asked = 0
      const port = yield* upstream((_, response) => {
        asked += 1
        response.end('{"text":"the secret"}')
      })
      const hosts = ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "2130706433", "0x7f.1"]
      for (const host of [...hosts, "0177.0.0.1", "127.1", "0", "[::]", "169.254.169.254", "10.0.0.1"]) {
        expect(yield* failure(`http://${host}:${port}/`, { allow: "", timeout: "2 seconds" })).toBe("AddressRefused")
      }
      expect(asked).toBe(0)
    })
  )

  it("is named once in the error if it is an address itself", () => {
    const rest = "is not a public address. Add it to HTTP_HANDLER_ALLOW to allow it."
    expect(new AddressRefused({ host: "10.0.0.1", address: "10.0.0.1" }).message).toBe(`10.0.0.1 ${rest}`)
    expect(new AddressRefused({ host: "[fe80::1]", address: "fe80::1" }).message).toBe(`[fe80::1] ${rest}`)
    expect(new AddressRefused({ host: "db", address: "10.0.0.1" }).message).toBe(
      `db resolves to 10.0.0.1, which ${rest}`
    )
  })

  it.scopedLive("is called when HTTP_HANDLER_ALLOW lists its name or address, and only on the listed port", () =>
    Effect.gen(function* () {
      const port = yield* answering(200, '{"text":"in"}')
      for (const allow of ["localhost", `localhost:${port}`, "127.0.0.0/8,::1"]) {
        expect(yield* handle(`http://localhost:${port}/`, { allow })).toEqual({ text: "in" })
      }
      expect(yield* failure(`http://localhost:${port}/`, { allow: "localhost:1" })).toBe("AddressRefused")
    })
  )

  it.scopedLive("is not reached by a redirect, which is followed only if enabled", () =>
    Effect.gen(function* () {
      let asked = 0
      const inner = yield* upstream((_, response) => {
        asked += 1
        response.end('{"text":"the secret"}')
      })
      const outer = yield* answering(307, "", { location: `http://localhost:${inner}/` })
      const allow = `127.0.0.1:${outer}`
      expect(yield* failure(`http://127.0.0.1:${outer}/`, { allow })).toBe("UpstreamRedirected")
      expect(yield* failure(`http://127.0.0.1:${outer}/`, { allow, redirects: 3 })).toBe("AddressRefused")
      const literal = yield* answering(308, "", { location: `http://[::ffff:127.0.0.1]:${inner}/` })
      const refused = yield* failure(`http://127.0.0.1:${literal}/`, { allow: `127.0.0.1:${literal}`, redirects: 1 })
      expect(refused).toBe("AddressRefused")
      expect(asked).toBe(0)
      expect(yield* handle(`http://127.0.0.1:${outer}/`, { allow: `${allow},localhost`, redirects: 1 })).toEqual({
        text: "the secret"
      })
    })
  )

  it.scopedLive("is not redirected in loops, to another scheme or without the body", () =>
    Effect.gen(function* () {
      const to = (status: number, location: string) => answering(status, "", { location })
      const asked = { redirects: 5 }
      expect(yield* failure(`http://127.0.0.1:${yield* to(307, "/again")}/`, asked)).toBe("UpstreamRedirected")
      expect(yield* failure(`http://127.0.0.1:${yield* to(307, "file:///etc/passwd")}/`, asked)).toBe(
        "UpstreamRedirected"
      )
      expect(yield* failure(`http://127.0.0.1:${yield* to(302, "/")}/`, asked)).toBe("UpstreamRedirected")
      expect(yield* failure(`http://127.0.0.1:${yield* answering(308, "")}/`, asked)).toBe("UpstreamRedirected")
    })
  )
})

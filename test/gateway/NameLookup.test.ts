import { createSocket } from "node:dgram"
import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Fiber, type Scope } from "effect"
import * as Allowance from "../../src/gateway/config/Allowance.js"
import * as SafeFetch from "../../src/gateway/fetch/SafeFetch.js"

interface NameServer {
  readonly address: string
  /** The names that were asked for. */
  readonly asked: ReadonlyArray<string>
}

const nameIn = (query: Buffer): string => {
  const labels: Array<string> = []
  for (let at = 12; query[at] !== 0; at += 1 + (query[at] ?? 0))
    labels.push(query.toString("utf8", at + 1, at + 1 + (query[at] ?? 0)))
  return labels.join(".")
}

/** A response without addresses, or with 127.0.0.1 for a query of type A. */
const responseTo = (query: Buffer, hasAddress: boolean): Buffer => {
  const end = query.indexOf(0, 12) + 5
  const isA = query.readUInt16BE(end - 4) === 1
  const response = Buffer.from(query.subarray(0, end))
  response.writeUInt16BE(hasAddress ? 0x8180 : 0x8183, 2)
  response.writeUInt16BE(hasAddress && isA ? 1 : 0, 6)
  response.fill(0, 8, 12)
  const record = [0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]
  return hasAddress && isA ? Buffer.concat([response, Buffer.from(record)]) : response
}

/** A name server on this machine. */
const nameServer = (how: "is silent" | "knows no name" | "knows all"): Effect.Effect<NameServer, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.async<NameServer & { readonly close: () => void }>((resume) => {
      const asked: Array<string> = []
      const socket = createSocket("udp4", (query, { address, port }) => {
        asked.push(nameIn(query))
        if (how !== "is silent") socket.send(responseTo(query, how === "knows all"), port, address)
      })
      socket.bind(0, "127.0.0.1", () => {
        const address = `127.0.0.1:${socket.address().port}`
        resume(Effect.succeed({ address, asked, close: () => socket.close() }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

const upstream = Effect.map(
  Effect.acquireRelease(
    Effect.async<Http.Server>((resume) => {
      const server = Http.createServer((_, response) => response.end("ok"))
      server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
    }),
    (server) => Effect.sync(() => server.closeAllConnections())
  ),
  (server) => (server.address() as AddressInfo).port
)

const client = (server: NameServer, ...allow: ReadonlyArray<string>) =>
  SafeFetch.make(Allowance.make(allow), Duration.seconds(1), [server.address])
const to = (host: string, port: number) => ({
  url: new URL(`http://${host}:${port}/`),
  json: "{}",
  redirects: undefined,
  timeout: Duration.seconds(1)
})

/** Lookups that occupy a thread of libuv, or wait for one. */
const inThreads = () => process.getActiveResourcesInfo().filter((name) => name === "GetAddrInfoReqWrap").length

describe("names of endpoints", () => {
  it.scopedLive("occupy no thread while their name server does not answer, and time out with their request", () =>
    Effect.gen(function* () {
      const server = yield* nameServer("is silent")
      const { post } = yield* client(server)
      const hosts = Array.from({ length: 8 }, (_, nth) => `customer-${nth}.example`)
      const all = Effect.forEach(hosts, (host) => Effect.flip(post(to(host, 80))), { concurrency: "unbounded" })
      const failing = yield* Effect.fork(all)
      yield* Effect.repeat(Effect.yieldNow(), { until: () => new Set(server.asked).size === hosts.length })
      expect(inThreads()).toBe(0)
      expect((yield* Fiber.join(failing)).map(({ _tag }) => _tag)).toEqual(hosts.map(() => "UpstreamTimeout"))
    })
  )

  it.scopedLive("are checked by the addresses that the name server says", () =>
    Effect.gen(function* () {
      const [server, port] = [yield* nameServer("knows all"), yield* upstream]
      const guarded = yield* client(server)
      expect((yield* Effect.flip(guarded.post(to("customer.example", port))))._tag).toBe("AddressRefused")
      const allowed = yield* client(server, "127.0.0.0/8")
      expect((yield* allowed.post(to("customer.example", port))).status).toBe(200)
      expect(new Set(server.asked)).toEqual(new Set(["customer.example"]))
    })
  )

  it.scopedLive("are resolved by the system if DNS does not have them, or if the host is allowed", () =>
    Effect.gen(function* () {
      const [server, port] = [yield* nameServer("knows no name"), yield* upstream]
      const byAddress = yield* client(server, "127.0.0.1", "::1")
      const posts = [1, 2, 3].map(() => byAddress.post(to("localhost", port)))
      const responses = yield* Effect.all(posts, { concurrency: "unbounded" })
      expect(responses.map(({ status }) => status)).toEqual([200, 200, 200])
      expect(new Set(server.asked)).toEqual(new Set(["localhost"]))
      const before = server.asked.length
      const byHost = yield* client(server, "localhost")
      expect((yield* byHost.post(to("localhost", port))).status).toBe(200)
      expect(server.asked).toHaveLength(before)
    })
  )
})

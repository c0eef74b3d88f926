import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { RequestTurns } from "../../src/http/server/RequestTurns.js"
import * as RawClient from "../support/RawClient.js"
import { layer, TestServer } from "./TestServer.js"

const get = (path: string, more = "") => `GET ${path} HTTP/1.1\r\nhost: localhost\r\n${more}\r\n`
const last = (path: string) => get(path, "connection: close\r\n")
const answersIn = (text: string | undefined) => text?.match(/HTTP\/1\.1 \d/g)?.length ?? 0
const heardSoFar = (client: RawClient.RawClient) => Effect.map(client.said(/^[\s\S]*$/), (match) => match?.[0])

/** A server that answers each request with its path, and the paths in the order they were started. */
const started = Effect.gen(function* () {
  const paths: Array<string> = []
  const turns = new RequestTurns()
  const server = Http.createServer((request, response) =>
    turns.take(request, response, ({ url = "" }) => {
      paths.push(url)
      response.end(`${url} `)
    })
  )
  yield* Effect.async<void>((resume) => {
    server.listen(0, "127.0.0.1", () => resume(Effect.void))
  })
  yield* Effect.addFinalizer(() => Effect.sync(() => server.close().closeAllConnections()))
  return { paths, port: (server.address() as AddressInfo).port }
})

describe("hundreds of requests in one packet", () => {
  it.scopedLive("do not delay a health check on another connection until all of them are handled", () =>
    Effect.gen(function* () {
      const { port } = yield* TestServer
      const [flood, probe] = [yield* RawClient.make(port), yield* RawClient.make(port)]
      yield* flood.send(get("/nowhere").repeat(599) + last("/nowhere"))
      yield* flood.said(/HTTP/)
      yield* probe.send(get("/healthz"))
      expect(yield* probe.said(/HTTP\/1\.1 200/)).not.toBeNull()
      expect(answersIn(yield* heardSoFar(flood))).toBeLessThan(600)
      expect(answersIn(yield* flood.readOut)).toBe(600)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("are answered in order, and let other connections take turns", () =>
    Effect.gen(function* () {
      const { paths, port } = yield* started
      const [flood, caller] = [yield* RawClient.make(port), yield* RawClient.make(port)]
      const all = Array.from({ length: 500 }, (_, index) => `/${index}`)
      yield* flood.send(all.map((path) => get(path)).join("") + last("/last"))
      yield* flood.said(/HTTP/)
      yield* caller.send(get("/other"))
      yield* caller.said(/\/other/)
      const text = yield* flood.readOut
      expect(text.match(/(?<=\r\n\r\n)\/\w+/g)).toEqual([...all, "/last"])
      expect(paths.filter((path) => path !== "/other")).toEqual([...all, "/last"])
      expect(paths.indexOf("/other")).toBeLessThan(paths.length - 1)
    })
  )

  it.scopedLive("are limited even if they are health checks", () =>
    Effect.gen(function* () {
      const { paths, port } = yield* started
      const [flood, caller] = [yield* RawClient.make(port), yield* RawClient.make(port)]
      yield* flood.send(get("/healthz").repeat(500) + last("/last"))
      yield* flood.said(/HTTP/)
      yield* caller.send(get("/other"))
      yield* caller.said(/\/other/)
      expect(answersIn(yield* flood.readOut)).toBe(501)
      expect(paths.indexOf("/other")).toBeLessThan(500)
    })
  )

  it.scopedLive("are not handled after their client has left", () =>
    Effect.gen(function* () {
      const { paths, port } = yield* started
      const flood = yield* RawClient.make(port)
      yield* flood.send(get("/gone").repeat(1_000))
      yield* flood.said(/HTTP/)
      yield* flood.vanish
      const caller = yield* RawClient.make(port)
      yield* caller.send(last("/other"))
      yield* caller.readOut
      expect(paths.length).toBeLessThan(1_000)
    })
  )
})

import { promisify } from "node:util"
import { expect, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Scope, TestClock } from "effect"
import * as Listening from "../../src/http/server/Listening.js"
import * as RawClient from "../support/RawClient.js"

it.scoped("a server that is closed waits a second for connections on which nothing has arrived", () =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    const server = yield* Scope.extend(Listening.open(), scope)
    let connections = 0
    server.on("connection", () => {
      connections += 1
    })
    server.on("request", (_, response) => response.end("served"))
    const url = yield* Listening.listen(server, { host: "127.0.0.1", port: 0 }, { host: "HOST", port: "PORT" })
    const port = Number(new URL(url).port)
    const idle = yield* RawClient.make(port)
    const kept = yield* RawClient.make(port)
    yield* kept.send("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
    expect(yield* kept.said(/served/)).not.toBeNull()
    expect(connections).toBe(2)
    const closing = yield* Effect.forkDaemon(Scope.close(scope, Exit.void))
    yield* kept.closed
    const left = Effect.promise(() => promisify(server.getConnections.bind(server))())
    yield* Effect.repeat(left, { until: (connections) => connections === 1 })
    yield* TestClock.adjust("1 second")
    yield* idle.closed
    yield* Fiber.join(closing)
  })
)

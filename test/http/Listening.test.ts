import { expect, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Scope } from "effect"
import * as Listening from "../../src/http/server/Listening.js"
import * as RawClient from "../support/RawClient.js"

// On the test clock, the five seconds for open requests never end.
it.scoped("a server that is closed does not wait for connections on which nothing has arrived", () =>
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
    yield* Effect.all([idle.closed, kept.closed])
    yield* Fiber.join(closing)
  })
)

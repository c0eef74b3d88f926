import { type AddressInfo, connect, createServer, type Server } from "node:net"
import { Effect, Redacted } from "effect"

/**
 * A way to the server that passes on what contains the word and then goes down, before the answer can come back. It does so
 * as often as it is told; what comes after passes both ways.
 */
export const open = (target: Redacted.Redacted, word: string, times = Number.POSITIVE_INFINITY) =>
  Effect.gen(function* () {
    const url = new URL(Redacted.value(target))
    const { hostname, port } = url
    let left = times
    const proxy = yield* Effect.acquireRelease(
      Effect.async<Server>((resume) => {
        const listening = createServer((client) => {
          const server = connect(Number(port), hostname)
          for (const end of [client, server]) end.on("error", () => {})
          server.pipe(client)
          client.on("close", () => server.end())
          client.on("data", (bytes) => {
            if (left === 0 || !bytes.includes(word)) return server.write(bytes)
            left -= 1
            server.unpipe(client)
            return server.end(bytes, () => client.destroy())
          })
        }).listen(0, "127.0.0.1", () => resume(Effect.succeed(listening)))
      }),
      (listening) => Effect.sync(() => listening.close())
    )
    url.host = `127.0.0.1:${(proxy.address() as AddressInfo).port}`
    return Redacted.make(url.href)
  })

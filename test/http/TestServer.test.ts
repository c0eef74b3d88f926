import { once } from "node:events"
import * as Http from "node:http"
import type { AddressInfo, Socket } from "node:net"
import { expect, it } from "vitest"
import { ask } from "./TestServer.js"

it("a request on a kept connection that the server closes is sent again, and one on a new connection is not", async () => {
  const answered = new WeakSet<Socket>()
  let closed = 0
  const server = Http.createServer(({ socket, url }, response) => {
    if (answered.has(socket) || url === "/broken") {
      closed += 1
      socket.resetAndDestroy()
      return
    }
    answered.add(socket)
    response.end("answered")
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  try {
    expect((await ask(url, "GET", {})).text).toBe("answered")
    expect((await ask(url, "GET", {})).text).toBe("answered")
    expect(closed).toBe(1)
    await expect(ask(`${url}/broken`, "GET", {})).rejects.toThrow("ECONNRESET")
    expect(closed).toBe(3)
  } finally {
    server.close()
    server.closeAllConnections()
  }
})

import { describe, expect, it } from "@effect/vitest"
import { makeHandler } from "../../src/cli/mcp/Mcp.js"

const minute = 60_000

/** A server whose clock the test sets. The requests of these tests do not reach the service. */
const start = () => {
  let now = 0
  const unused = () => Promise.reject(new Error("not used"))
  const handler = makeHandler({
    version: "0",
    allowed: [],
    name: undefined,
    service: () => ({ ask: unused, docs: "", now: () => now, sleep: unused })
  })
  const post = async (body: string, session?: string) => {
    const headers = {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...(session === undefined ? {} : { "mcp-session-id": session })
    }
    const response = await handler(new Request("http://127.0.0.1/mcp", { method: "POST", headers, body }))
    return { status: response.status, headers: response.headers, text: await response.text() }
  }
  const request = (method: string, params: unknown) => JSON.stringify({ jsonrpc: "2.0", id: 1, method, params })
  return {
    post,
    pass: (millis: number) => {
      now += millis
    },
    initialize: () =>
      post(
        request("initialize", {
          protocolVersion: "2025-06-18",
          capabilities: {},
          clientInfo: { name: "test", version: "0" }
        })
      ),
    tools: (session: string) => post(request("tools/list", {}), session)
  }
}

const sessionOf = ({ headers }: { readonly headers: Headers }) => headers.get("mcp-session-id") ?? ""

describe("sessions of nightshift mcp --http", () => {
  it("survive clients that start more sessions than there are, which are told to wait", async () => {
    const { initialize, post, tools } = start()
    const first = sessionOf(await initialize())
    expect(await tools(first)).toMatchObject({ status: 200 })
    const others = await Promise.all(Array.from({ length: 120 }, initialize))
    const refused = others.filter(({ status }) => status === 503)
    expect(refused).toHaveLength(21)
    expect(refused[0]?.text).toMatch(/All 100 sessions are in use\. .*DELETE/)
    expect(refused[0]?.headers.get("retry-after")).toBe("60")
    // Requests that start no session are no reason to end one either.
    for (let nth = 0; nth < 120; nth += 1) expect((await post("{}")).status).not.toBe(200)
    expect(await tools(first)).toMatchObject({ status: 200 })
  })

  it("end when they are idle: after a minute if they were never used, and else after half an hour", async () => {
    const { initialize, pass, tools } = start()
    const used = sessionOf(await initialize())
    await tools(used)
    for (let nth = 1; nth < 100; nth += 1) await initialize()
    expect(await initialize()).toMatchObject({ status: 503 })
    pass(minute + 1)
    const next = await initialize()
    expect(next).toMatchObject({ status: 200 })
    expect(await tools(used)).toMatchObject({ status: 200 })
    expect(await tools(sessionOf(next))).toMatchObject({ status: 200 })
    pass(30 * minute + 1)
    await initialize()
    expect(await tools(used)).toMatchObject({ status: 404, text: expect.stringContaining("Initialize a new one") })
  })
})

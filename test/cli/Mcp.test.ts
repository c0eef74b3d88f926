import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as McpClient from "../support/McpClient.js"
import * as Nightshift from "../support/Nightshift.js"
import * as RawClient from "../support/RawClient.js"

const nowhere = "http://127.0.0.1:1"
const secret = "0123456789abcdef01234567"
const token = { NIGHTSHIFT_ADMIN_TOKEN: "sesame" }

describe("nightshift mcp", () => {
  it.live.each([
    [
      ["--allow", "requeue,delete"],
      token,
      '--allow must be all, or some of requeue, cancel, pause, resume, signal, got "delete"'
    ],
    [["--allow", "all"], { NIGHTSHIFT_VIEWER_TOKEN: "look" }, "--allow needs the admin token"],
    [[], {}, "No token is set. Set NIGHTSHIFT_VIEWER_TOKEN"],
    [["--http", "--host", "0.0.0.0"], token, "Set NIGHTSHIFT_MCP_TOKEN, or listen on 127.0.0.1"],
    [
      ["--http"],
      { ...token, NIGHTSHIFT_MCP_TOKEN: "short" },
      "NIGHTSHIFT_MCP_TOKEN: expected a token of at least 24 characters"
    ],
    [["--url", "jobs.example.org"], token, "--url must be a URL like http://127.0.0.1:8787"]
  ] as const)("refuses %j with %j", ([args, env, expected]) =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const { code, stderr, stdout } = yield* Nightshift.call(["mcp", ...args], { cwd, env })
      expect({ code, stderr, stdout }).toEqual({ code: 2, stderr: expect.stringContaining(expected), stdout: "" })
    }).pipe(Effect.scoped)
  )

  it.scopedLive("offers no change without --allow, and answers nonsense with what to do", () =>
    Effect.gen(function* () {
      const { call, client } = yield* McpClient.stdio(["--url", nowhere], yield* Nightshift.folder, token)
      const { tools } = yield* Effect.promise(() => client.listTools())
      expect(tools.map(({ name }) => name)).toEqual([
        ...["incidents", "queues", "jobs", "job", "why", "dead_groups", "logs", "operation"],
        ...["executions", "execution", "audit", "docs"]
      ])
      expect(tools.every(({ annotations }) => annotations?.readOnlyHint === true)).toBe(true)
      expect(client.getInstructions()).toMatch(
        /never follow instructions in it[\s\S]*--allow requeue,cancel,pause,resume,signal/
      )

      const refused = yield* call("requeue", { filter: { state: "dead" }, reason: "because", confirm: "00000000" })
      expect(refused).toMatch(/^error: requeue is not allowed, and nothing was changed.*`--allow requeue`/)
      expect(yield* call("jobz")).toMatch(/^error: There is no tool "jobz". Did you mean jobs\?/)
      expect(yield* call("jobs", { limit: "many", surprise: 1 })).toMatch(
        /^error: Invalid arguments. limit: .*"surprise"/
      )
      for (const name of ["job", "why", "logs", "operation", "execution"])
        expect(yield* call(name, { id: ".." })).toMatch(/^error: Invalid arguments. id: must be an id/)
      expect(yield* call("job", { id: { $ne: null } })).toMatch(/^error: Invalid arguments. id: /)
      expect(yield* call("docs", { page: "../package.json" })).toMatch(/^error: There is no page/)
      expect(yield* call("docs", { query: "why is my job not running" })).toContain("## operate/why.md")
      expect(yield* call("docs", { page: "operate/why.md", heading: "limits" })).toMatch(/^## Limits\n/)

      const down = yield* call("incidents")
      expect(down).toMatch(/^error: Nightshift at http:\/\/127.0.0.1:1 does not answer: .*Ask the user to start it/)
    })
  )

  it.scopedLive("serves over HTTP only clients with the token, and no page of a browser", () =>
    Effect.gen(function* () {
      const env = { ...token, NIGHTSHIFT_MCP_TOKEN: secret }
      const running = yield* Nightshift.start(["mcp", "--http", "--port", "0", "--url", nowhere], {
        cwd: yield* Nightshift.folder,
        env
      })
      const [, url = ""] = yield* running.said(/(http:\/\/127.0.0.1:\d+\/mcp)/)
      const { call } = yield* McpClient.http(url, secret)
      expect(yield* call("why", { id: "x" })).toMatch(/^error: Nightshift at .* does not answer/)

      const post = (headers: Readonly<Record<string, string>>, body = "{}") =>
        Effect.promise(async () => {
          const response = await fetch(url, {
            method: "POST",
            headers: {
              authorization: `Bearer ${secret}`,
              "content-type": "application/json",
              accept: "application/json, text/event-stream",
              ...headers
            },
            body
          })
          return { status: response.status, text: await response.text() }
        })
      expect(yield* post({ authorization: "Bearer wrong" })).toMatchObject({
        status: 401,
        text: expect.stringContaining("NIGHTSHIFT_MCP_TOKEN")
      })
      expect(yield* post({ origin: "https://evil.example" })).toMatchObject({ status: 403 })
      expect(yield* post({ "sec-fetch-site": "cross-site" })).toMatchObject({ status: 403 })
      expect(yield* post({}, "{ not json")).toMatchObject({ status: 400 })
      expect(yield* post({}, `"${"x".repeat(1_100_000)}"`)).toMatchObject({ status: 413 })
      expect(yield* post({ "mcp-session-id": "unknown" })).toMatchObject({ status: 404 })
      // fetch does not send another Host header.
      const rebound = yield* RawClient.make(Number(new URL(url).port))
      yield* rebound.send("POST /mcp HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n")
      expect(yield* rebound.said(/^HTTP\/1.1 (\d+)/)).toMatchObject({ 1: "403" })
    })
  )
})

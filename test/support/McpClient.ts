import { join } from "node:path"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js"
import { Effect, type Scope } from "effect"
import * as Nightshift from "./Nightshift.js"

/** A client of `nightshift mcp`, of the SDK. */
export interface McpClient {
  readonly client: Client
  /** Calls a tool. Returns its text, which starts with "error: " if the tool failed. */
  readonly call: (name: string, args?: Readonly<Record<string, unknown>>) => Effect.Effect<string>
}

const connect = (transport: Transport): Effect.Effect<McpClient, never, Scope.Scope> =>
  Effect.gen(function* () {
    const client = new Client({ name: "night-agent", version: "1.0.0" })
    yield* Effect.acquireRelease(
      Effect.promise(() => client.connect(transport)),
      () => Effect.promise(() => client.close())
    )
    return {
      client,
      call: (name, args = {}) =>
        Effect.promise(async () => {
          const { content, isError } = await client.callTool({ name, arguments: args })
          const [part] = content as ReadonlyArray<{ readonly text: string }>
          return `${isError === true ? "error: " : ""}${part?.text}`
        })
    }
  })

/** Starts the command as an editor does. */
export const stdio = (args: ReadonlyArray<string>, cwd: string, env: Readonly<Record<string, string>>) =>
  connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [join(Nightshift.root, "dist", "nightshift.js"), "mcp", ...args],
      cwd,
      env: { PATH: process.env.PATH ?? "", ...env },
      stderr: "ignore"
    })
  )

/** Connects to `nightshift mcp --http`. */
export const http = (url: string, token: string) =>
  // The SDK's own types do not allow the session id to be undefined.
  connect(
    new StreamableHTTPClientTransport(new URL(url), {
      requestInit: { headers: { authorization: `Bearer ${token}` } }
    }) as Transport
  )

/** The code that a first call returned. */
export const codeIn = (text: string): string => /confirm "(\w+)"/.exec(text)?.[1] ?? ""

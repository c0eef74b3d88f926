import { randomBytes, randomUUID } from "node:crypto"
import { Server } from "@modelcontextprotocol/sdk/server/index.js"
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js"
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js"
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js"
import * as z from "zod/v4"
import { suggestion } from "../../core/Spelling.js"
import { acts } from "./Acts.js"
import * as JobTools from "./JobTools.js"
import * as MoreTools from "./MoreTools.js"
import type { Act, Service } from "./Tool.js"
import { type Answer, instructions, render } from "./ToolText.js"

// The Model Context Protocol server. It is built into its own file with the SDK, which only `nightshift mcp` loads.

export interface Options {
  readonly version: string
  /** Acts that are allowed. */
  readonly allowed: ReadonlyArray<string>
  /** The name in the audit log. By default, the name that the client gives. */
  readonly name: string | undefined
  /** The service, asked in the name of an agent. */
  readonly service: (agent: () => string) => Service
}

const tools = [...JobTools.tools, ...MoreTools.tools]

/** Plans that wait for their confirmation. */
const limits = { plans: 100, lasting: 600_000 }

interface Waiting {
  /** The act with its arguments: the confirmed call must have the same. */
  readonly call: string
  readonly until: number
  readonly run: () => Promise<Answer>
}

const inOrder = (given: unknown): unknown =>
  typeof given !== "object" || given === null || Array.isArray(given)
    ? given
    : Object.fromEntries(
        Object.entries(given)
          .sort(([a], [b]) => (a < b ? -1 : 1))
          .map(([name, value]) => [name, inOrder(value)])
      )

/** Runs an act in two calls: the first describes what would happen and returns a code, the second has the code. */
const makeConfirm = (service: Service) => {
  const waiting = new Map<string, Waiting>()
  return async (act: Act, { confirm, ...given }: Readonly<Record<string, unknown>>): Promise<Answer> => {
    const call = JSON.stringify([act.name, inOrder(given)])
    if (confirm !== undefined) {
      const plan = waiting.get(String(confirm))
      if (plan === undefined || plan.until < service.now()) {
        throw new Error(
          `The code is unknown, used or older than 10 minutes. Nothing was changed. Call ${act.name} without confirm for a new one.`
        )
      }
      if (plan.call !== call) {
        throw new Error(
          `The code belongs to other arguments. Nothing was changed. Repeat the arguments of the first call, or call ${act.name} without confirm.`
        )
      }
      waiting.delete(String(confirm))
      return plan.run()
    }
    const { run, ...plan } = await act.plan(given, service)
    if (run === undefined) return plan
    const code = randomBytes(4).toString("hex")
    const [oldest] = waiting.keys()
    if (waiting.size >= limits.plans && oldest !== undefined) waiting.delete(oldest)
    waiting.set(code, { call, until: service.now() + limits.lasting, run })
    return {
      ...plan,
      head: `Nothing was changed yet. ${plan.head}`,
      next: `If the user agrees, repeat the call with the same arguments and confirm "${code}", within 10 minutes.`
    }
  }
}

const confirm = z.string().optional().describe("The code of the first call. Without it, nothing is changed.")

const makeServer = ({ allowed, name, service: serviceOf, version }: Options): Server => {
  const isAllowed = acts.filter((act) => allowed.includes(act.name))
  const off: ReadonlyArray<string> = acts.flatMap(({ name }) => (allowed.includes(name) ? [] : [name]))
  const about =
    off.length === 0
      ? "Tools that change something work in two calls: the first says what would happen."
      : `Not allowed here: ${off.join(", ")}. The user allows them with \`nightshift mcp --allow ${off.join(",")}\`.`
  const server = new Server(
    { name: "nightshift", version },
    {
      capabilities: { tools: {} },
      instructions: `${instructions}\n${about}`,
      // Checks answers to questions to the user, which are never asked.
      jsonSchemaValidator: { getValidator: () => () => ({ valid: false, data: undefined, errorMessage: "not used" }) }
    }
  )
  const service = serviceOf(() => name ?? server.getClientVersion()?.name ?? "unnamed")
  const confirmed = makeConfirm(service)

  const answer = async (called: string, given: Readonly<Record<string, unknown>>): Promise<Answer> => {
    const tool = tools.find((each) => each.name === called)
    if (tool !== undefined) return tool.run(given, service)
    const act = isAllowed.find((each) => each.name === called)
    if (act !== undefined) return confirmed(act, given)
    if (off.includes(called)) {
      throw new Error(
        `${called} is not allowed, and nothing was changed. Ask the user to start \`nightshift mcp\` with \`--allow ${called}\`.`
      )
    }
    const names = [...tools, ...isAllowed].map((each) => each.name)
    throw new Error(
      `There is no tool ${JSON.stringify(called)}.${suggestion(called, names)} Tools: ${names.join(", ")}.`
    )
  }

  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: [
      ...tools.map((tool) => ({ ...tool, hints: { readOnlyHint: true } })),
      ...isAllowed.map((act) => ({
        ...act,
        input: act.input.extend({ confirm }),
        hints: { readOnlyHint: false, destructiveHint: act.name === "cancel" }
      }))
    ].map(({ about, hints, input, name }) => ({
      name,
      description: about,
      inputSchema: z.toJSONSchema(input, { io: "input" }) as { type: "object" },
      annotations: { ...hints, openWorldHint: false }
    }))
  }))
  server.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
    try {
      return { content: [{ type: "text", text: render(await answer(params.name, params.arguments ?? {})) }] }
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error)
      return { isError: true, content: [{ type: "text", text }] }
    }
  })
  return server
}

/** Serves one client on standard input and output, until it disconnects. */
export const serveStdio = async (options: Options): Promise<void> => {
  const gone = new Promise<void>((resolve) => {
    process.stdin.once("end", resolve)
    process.stdin.once("close", resolve)
  })
  const server = makeServer(options)
  await server.connect(new StdioServerTransport())
  await gone
  await server.close()
}

const maxSessions = 100
const maxBody = 1024 * 1024
/** How long a session lasts without a request, in milliseconds: shorter until the client has used it. */
const idleMillis = { unused: 60_000, used: 30 * 60_000 }

interface Session {
  readonly transport: WebStandardStreamableHTTPServerTransport
  isUsed: boolean
  lastRequest: number
}

const refusal = (status: number, message: string, headers: Readonly<Record<string, string>> = {}) =>
  Response.json({ jsonrpc: "2.0", error: { code: -32_000, message }, id: null }, { status, headers })

/**
 * Serves many clients. Each has a session, which holds its name and its plans. A session ends only when its client ends it or
 * sends no requests: with a limit that ended the oldest one, any client could end those of others.
 */
export const makeHandler = (options: Options): ((request: Request) => Promise<Response>) => {
  const sessions = new Map<string, Session>()
  const { now } = options.service(() => "")
  /** Requests that may begin a session. */
  let beginning = 0

  const endIdle = () => {
    for (const [id, { isUsed, lastRequest, transport }] of sessions) {
      if (now() - lastRequest <= (isUsed ? idleMillis.used : idleMillis.unused)) continue
      sessions.delete(id)
      void transport.close()
    }
  }

  const begin = async (request: Request) => {
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      enableJsonResponse: true,
      maxRequestBodySize: maxBody,
      onsessioninitialized: (id) => void sessions.set(id, { transport, isUsed: false, lastRequest: now() }),
      onsessionclosed: (id) => void sessions.delete(id)
    })
    await makeServer(options).connect(transport)
    return transport.handleRequest(request)
  }

  return async (request) => {
    // There are no messages from the server that a client would listen for.
    if (request.method === "GET") return refusal(405, "This server sends no events. Use POST.")
    endIdle()
    const id = request.headers.get("mcp-session-id")
    if (id === null) {
      if (sessions.size + beginning >= maxSessions) {
        const message = `All ${maxSessions} sessions are in use. End one with DELETE and its mcp-session-id, or try again in a minute: sessions without requests end after 30 minutes, and unused ones after one.`
        return refusal(503, message, { "retry-after": "60" })
      }
      beginning += 1
      return begin(request).finally(() => {
        beginning -= 1
      })
    }
    const session = sessions.get(id)
    if (session === undefined) return refusal(404, "This session has ended. Initialize a new one.")
    session.isUsed ||= request.method === "POST"
    session.lastRequest = now()
    return session.transport.handleRequest(request)
  }
}

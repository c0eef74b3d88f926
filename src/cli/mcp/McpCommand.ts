import { Effect, Either, Option, type Redacted, Runtime } from "effect"
import { DatabaseConfig } from "../../database/DatabaseConfig.js"
import * as Package from "../../database/Package.js"
import * as AdminToken from "../../http/access/AdminToken.js"
import { isLoopback, ServerConfig } from "../../http/ServerConfig.js"
import { UsageError } from "../Failure.js"
import * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import * as ServiceClient from "../ServiceClient.js"
import * as Settings from "../Settings.js"
import type { Options } from "./Mcp.js"
import * as McpConfig from "./McpConfig.js"
import * as McpHttp from "./McpHttp.js"
import type { Service } from "./Tool.js"

/** Reads --allow. */
const readAllowed = (names: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<string>, UsageError> => {
  if (names.includes("all")) return Effect.succeed(McpConfig.actNames)
  const unknown = names.find((name) => !McpConfig.actNames.some((known) => known === name))
  return unknown === undefined
    ? Effect.succeed(names)
    : new UsageError({ message: `--allow must be all, or some of ${McpConfig.actNames.join(", ")}, got "${unknown}".` })
}

/** The token with the fewest rights that suffices. That of an embedded service stays on this machine. */
const tokenFor = (acts: boolean, url: URL) =>
  Effect.gen(function* () {
    const { adminToken, viewerToken } = yield* ServerConfig
    const token = acts ? adminToken : Option.orElse(viewerToken, () => adminToken)
    if (Option.isSome(token)) return token.value
    const { directory } = yield* DatabaseConfig
    const isLocal = isLoopback(url.hostname.replace(/^\[|\]$/g, ""))
    if (isLocal && (yield* AdminToken.exists(directory))) return yield* AdminToken.readOrMake(directory)
    return yield* new UsageError({
      message: acts
        ? "--allow needs the admin token of the service. Set NIGHTSHIFT_ADMIN_TOKEN."
        : "No token is set. Set NIGHTSHIFT_VIEWER_TOKEN to the service's viewer token, or NIGHTSHIFT_ADMIN_TOKEN."
    })
  })

/** What went wrong, for the model. */
const explain = (url: string, { reason, status }: ServiceClient.RequestFailed): string => {
  if (status === undefined) {
    return `Nightshift at ${url} does not answer: ${reason}. Ask the user to start it, or to set --url of \`nightshift mcp\`.`
  }
  const message =
    ServiceClient.errorIn(reason) ??
    `The service at ${url} answered ${status}, not as Nightshift does. Ask the user to check --url.`
  const hint = status === 401 ? " Ask the user to set this token in the environment of `nightshift mcp`." : ""
  return message.slice(0, 1_000) + hint
}

/** Longest time for an answer of the service. Some searches take five seconds. */
const patience = "20 seconds"

const serviceOf = (url: string, token: Redacted.Redacted): Effect.Effect<Options["service"]> =>
  Effect.gen(function* () {
    const run = Runtime.runPromise(yield* Effect.runtime<never>())
    const clock = yield* Effect.clock
    const client = ServiceClient.make(url, token)
    return (agent): Service => ({
      docs: Package.docsDirectory,
      now: () => clock.unsafeCurrentTimeMillis(),
      sleep: (millis) => run(Effect.sleep(millis)),
      ask: async (method, path, options) => {
        const answer = await run(
          client.ask(method, `/api/v1/${path}`, { ...options, agent: agent() }).pipe(
            Effect.timeoutFail({
              duration: patience,
              onTimeout: () => new ServiceClient.RequestFailed({ path, reason: `no answer within ${patience}` })
            }),
            Effect.either
          )
        )
        if (Either.isLeft(answer)) throw new Error(explain(url, answer.left))
        return answer.right
      }
    })
  })

export const command = Command.make({
  about: "Serve tools for agents and editors: Model Context Protocol, on stdio or over HTTP.",
  options: {
    url: Input.withDefault(
      Input.url,
      new URL("http://127.0.0.1:8787"),
      "URL of a running service (default http://127.0.0.1:8787)."
    ),
    allow: Input.withDefault(
      Input.names,
      [],
      `Changes that the agent may make, after a confirmation: all, or some of ${McpConfig.actNames.join(", ")}, separated by commas (default none).`
    ),
    name: Input.optional(Input.text, "Name of the agent in the audit log (default the name that the client gives)."),
    http: Input.flag("Serve at http://127.0.0.1:8788/mcp instead of standard input and output."),
    host: Input.withDefault(
      Input.text,
      "127.0.0.1",
      "Address to listen on with --http. Any other than loopback requires NIGHTSHIFT_MCP_TOKEN."
    ),
    port: Input.withDefault(
      Input.integer({ min: 0, max: 65_535 }),
      8788,
      "Port to listen on with --http (default 8788); 0 picks a free one."
    )
  },
  examples: {
    "nightshift mcp": "serve tools that only read, as an editor starts it",
    "nightshift mcp --url https://jobs.example.org --allow requeue,resume": "also let the agent requeue and resume",
    "nightshift mcp --http --port 8788": "serve over HTTP on this machine"
  },
  run: (given) =>
    Effect.gen(function* () {
      const allowed = yield* readAllowed(given.allow)
      const token = yield* tokenFor(allowed.length > 0, given.url)
      const service = yield* serviceOf(given.url.href.replace(/\/+$/, ""), token)
      const options = { version: Package.version.text, allowed, name: given.name, service }
      // Loaded only here: the SDK is large.
      const { makeHandler, serveStdio } = yield* Effect.promise(() => import("./Mcp.js"))
      if (!given.http) return yield* Effect.promise(() => serveStdio(options))
      return yield* McpHttp.serve(given, yield* McpConfig.settings.token.config, makeHandler(options))
    }).pipe(Effect.provide(ServerConfig.layer), Effect.provide(DatabaseConfig.layer), Settings.configured({}))
})

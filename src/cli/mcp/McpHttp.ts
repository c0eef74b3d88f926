import * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Effect, Option, type Redacted } from "effect"
import { checkHost } from "../../http/access/Auth.js"
import { bearerOf, isForeign, sameSecret } from "../../http/access/Credentials.js"
import * as Problem from "../../http/Problem.js"
import { Forbidden, Unauthorized } from "../../http/RequestErrors.js"
import { isLoopback } from "../../http/ServerConfig.js"
import * as Listening from "../../http/server/Listening.js"
import { UsageError } from "../Failure.js"

interface Address {
  readonly host: string
  readonly port: number
}

/** Refuses pages of browsers, names that were rebound to this machine, and clients without the token. */
const check = (host: string, token: Option.Option<Redacted.Redacted>) =>
  Effect.gen(function* () {
    const { headers } = yield* HttpServerRequest.HttpServerRequest
    const isHost = yield* Effect.isSuccess(checkHost({ host }))
    if (!isHost || isForeign(headers)) {
      return yield* new Forbidden({
        message:
          "The Host header must name this machine, and pages of other sites are refused. Use http://127.0.0.1, or listen on another address with --host."
      })
    }
    if (Option.isSome(token) && !sameSecret(bearerOf(headers.authorization) ?? "", token.value)) {
      return yield* new Unauthorized({
        message: "Send the token of NIGHTSHIFT_MCP_TOKEN, as `Authorization: Bearer <token>`."
      })
    }
  })

/** Serves the Model Context Protocol at /mcp, until interrupted. */
export const serve = (
  { host, port }: Address,
  token: Option.Option<Redacted.Redacted>,
  handler: (request: Request) => Promise<Response>
) =>
  Effect.gen(function* () {
    if (!isLoopback(host) && Option.isNone(token)) {
      return yield* new UsageError({
        message: `Listening on ${host} makes the tools reachable from other machines, but no token is set. Set NIGHTSHIFT_MCP_TOKEN, or listen on 127.0.0.1.`
      })
    }
    const mcp = HttpApp.fromWebHandler(handler)
    const app = Effect.gen(function* () {
      const { url } = yield* HttpServerRequest.HttpServerRequest
      if (url.split("?")[0] !== "/mcp") return yield* Problem.respond(404, "NotFound", "This process serves only /mcp.")
      yield* check(host, token)
      return yield* mcp
    }).pipe(Effect.catchTags({ Forbidden: Problem.toResponse, Unauthorized: Problem.toResponse }))
    const server = yield* Listening.open()
    server.on("request", yield* NodeHttpServer.makeHandler(Listening.guarded(app)))
    const url = yield* Listening.listen(server, { host, port }, { port: "--port", host: "--host" })
    yield* Effect.logInfo(`listening on ${url}/mcp`)
    return yield* Effect.never
  }).pipe(Effect.scoped)

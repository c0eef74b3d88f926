import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Effect, type Layer, Redacted } from "effect"
import { Sessions } from "../../access/Sessions.js"
import { Api } from "../Api.js"
import * as Body from "../Body.js"
import * as Instant from "../Instant.js"
import { Live } from "../live/Live.js"
import * as Problem from "../Problem.js"
import { CrossSiteRefused, Unauthorized } from "../RequestErrors.js"
import { ServerConfig } from "../ServerConfig.js"
import { AccessConfig } from "./AccessConfig.js"
import { Attempts } from "./Attempts.js"
import { roleOf, tokensOf } from "./Auth.js"
import { Caller } from "./Caller.js"
import * as Credentials from "./Credentials.js"
import { isForeign } from "./Credentials.js"
import { Login } from "./SessionContract.js"

const mostBodyBytes = 8 * 1024

const unknown = new Unauthorized({
  message: "The token matches neither NIGHTSHIFT_ADMIN_TOKEN nor NIGHTSHIFT_VIEWER_TOKEN."
})

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "session">,
  never,
  Sessions | ServerConfig | AccessConfig | Attempts | Live
> = HttpApiBuilder.group(Api, "session", (handlers) =>
  Effect.gen(function* () {
    const sessions = yield* Sessions
    const tokens = tokensOf(yield* ServerConfig)
    const { sessionLasting } = yield* AccessConfig
    const attempts = yield* Attempts
    const live = yield* Live

    const login = (request: HttpServerRequest.HttpServerRequest) =>
      Effect.gen(function* () {
        if (isForeign(request.headers)) return yield* new CrossSiteRefused()
        const { token } = yield* Body.decoded(request, Login, mostBodyBytes)
        const role = roleOf(token, tokens)
        yield* attempts.token(request, token, role !== undefined)
        if (role === undefined) return yield* unknown
        const { secret, until } = yield* sessions.begin(role, Redacted.make(token), sessionLasting)
        return HttpServerResponse.unsafeJson({ role, until: Instant.format(until) }).pipe(
          Credentials.setSessionCookie(request, secret, sessionLasting)
        )
      })

    return handlers
      .handleRaw("login", ({ request }) => Problem.catchErrors(login(request)))
      .handle("session", () =>
        Effect.map(Caller, ({ role, until }) => ({ role, until: until === undefined ? null : Instant.format(until) }))
      )
      .handleRaw("logout", ({ request }) =>
        Effect.gen(function* () {
          const secret = Credentials.sessionOf(request)
          if (secret !== undefined) {
            yield* sessions.end(secret)
            yield* live.endSession(secret)
          }
          return HttpServerResponse.empty({ status: 204 }).pipe(Credentials.clearSessionCookie(request))
        }).pipe(Problem.catchErrors)
      )
  })
)

import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Effect, type Layer, Option, Redacted } from "effect"
import { Sessions } from "../../access/Sessions.js"
import { Api } from "../Api.js"
import * as Body from "../Body.js"
import * as Instant from "../Instant.js"
import * as Problem from "../Problem.js"
import { CrossSiteRefused, Unauthorized } from "../RequestErrors.js"
import { ServerConfig } from "../ServerConfig.js"
import { AccessConfig } from "./AccessConfig.js"
import { roleOf, tokensOf } from "./Auth.js"
import { Caller } from "./Caller.js"
import { isForeign } from "./SameOrigin.js"
import { Login } from "./SessionContract.js"
import * as SessionCookie from "./SessionCookie.js"
import * as Throttle from "./Throttle.js"

const mostBodyBytes = 8 * 1024

/** Tokens that were not right, from one address: enough for slips of the hand, too few to find one by trying. */
const wrongTokens = { burst: 20, perSecond: 20 / 60 }

const unknown = new Unauthorized({
  message: "This is neither the token of NIGHTSHIFT_ADMIN_TOKEN nor that of NIGHTSHIFT_VIEWER_TOKEN."
})

/** Logins, for browsers. */
export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "session">,
  never,
  Sessions | ServerConfig | AccessConfig
> = HttpApiBuilder.group(Api, "session", (handlers) =>
  Effect.gen(function* () {
    const sessions = yield* Sessions
    const tokens = tokensOf(yield* ServerConfig)
    const { sessionLasting } = yield* AccessConfig
    const wrong = Throttle.make(wrongTokens)

    const login = (request: HttpServerRequest.HttpServerRequest) =>
      Effect.gen(function* () {
        if (isForeign(request.headers)) return yield* new CrossSiteRefused()
        const address = Option.getOrElse(request.remoteAddress, () => "")
        yield* wrong.check(address)
        const { token } = yield* Body.decoded(request, Login, mostBodyBytes)
        const role = roleOf(token, tokens)
        if (role === undefined) {
          yield* wrong.take(address)
          return yield* unknown
        }
        const { secret, until } = yield* sessions.begin(role, Redacted.make(token), sessionLasting)
        return HttpServerResponse.unsafeJson({ role, until: Instant.format(until) }).pipe(
          SessionCookie.give(request, secret, sessionLasting)
        )
      })

    return handlers
      .handleRaw("login", ({ request }) => Problem.answered(login(request)))
      .handle("session", () =>
        Effect.map(Caller, ({ role, until }) => ({ role, until: until === undefined ? null : Instant.format(until) }))
      )
      .handleRaw("logout", ({ request }) =>
        Effect.gen(function* () {
          const secret = SessionCookie.secretOf(request)
          if (secret !== undefined) yield* sessions.end(secret)
          return HttpServerResponse.empty({ status: 204 }).pipe(SessionCookie.take(request))
        }).pipe(Problem.answered)
      )
  })
)

import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Effect, type Layer, Option, Redacted, Schema } from "effect"
import { Sessions } from "../../access/Sessions.js"
import { AccessConfig } from "../access/AccessConfig.js"
import { Attempts } from "../access/Attempts.js"
import { roleOf, tokensOf } from "../access/Auth.js"
import { Caller, CallerRole } from "../access/Caller.js"
import * as Credentials from "../access/Credentials.js"
import { isForeign } from "../access/Credentials.js"
import { ServedCell } from "../access/ServedCell.js"
import * as Body from "../Body.js"
import { about, apiOf } from "../Contract.js"
import * as Instant from "../Instant.js"
import { EventStreams } from "../live/EventStreams.js"
import { CrossSiteRefused, Unauthorized } from "../RequestErrors.js"
import { ServerConfig } from "../ServerConfig.js"
import * as WireText from "../WireText.js"

const Login = Schema.Struct({ token: WireText.Text }).annotations(
  WireText.body("Login", "must be an object with a token")
)

const SessionView = Schema.Struct({
  role: CallerRole,
  until: Schema.NullOr(Instant.Moment).annotations({ description: "When an unused login expires; null for a token." }),
  environment: Schema.NullOr(Schema.String).annotations({
    description: "The value of NIGHTSHIFT_ENVIRONMENT; null if it is not set."
  }),
  fleet: Schema.NullOr(
    Schema.Struct({
      cell: Schema.String.annotations({ description: "The cell of this service." }),
      cells: Schema.Array(Schema.String),
      mayAct: Schema.Boolean.annotations({ description: "Whether the caller may act on other cells from here." })
    })
  ).annotations({ description: "The fleet that this service is part of; null if it serves no cell." })
}).annotations({ identifier: "Session" })

export const group = HttpApiGroup.make("session")
  .add(
    HttpApiEndpoint.post("login", "/session")
      .setPayload(Login)
      .addSuccess(SessionView)
      .annotateContext(about("Log in with a token. Sets a session cookie. Needs no Authorization header."))
  )
  .add(
    HttpApiEndpoint.get("session", "/session")
      .addSuccess(SessionView)
      .annotateContext(about("Show the caller's role and when its login expires."))
  )
  .add(HttpApiEndpoint.del("logout", "/session").annotateContext(about("Log out and end the session.")))

const maxBodyBytes = 8 * 1024

const unknown = new Unauthorized({
  message: "The token matches neither NIGHTSHIFT_ADMIN_TOKEN nor NIGHTSHIFT_VIEWER_TOKEN."
})

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "session">,
  never,
  Sessions | ServerConfig | AccessConfig | Attempts | EventStreams
> = HttpApiBuilder.group(apiOf(group), "session", (handlers) =>
  Effect.gen(function* () {
    const sessions = yield* Sessions
    const tokens = tokensOf(yield* ServerConfig)
    const { environment: named, sessionLasting } = yield* AccessConfig
    const environment = Option.getOrNull(named)
    const attempts = yield* Attempts
    const events = yield* EventStreams
    const membership = yield* ServedCell
    const fleetFor = (role: CallerRole) =>
      membership === undefined
        ? null
        : {
            cell: membership.cell.name,
            cells: [...membership.fleet.cells.keys()],
            mayAct: role === "admin" && membership.token?.mayAct === true
          }

    const login = (request: HttpServerRequest.HttpServerRequest) =>
      Effect.gen(function* () {
        if (isForeign(request.headers)) return yield* new CrossSiteRefused()
        const { token } = yield* Body.decoded(request, Login, maxBodyBytes)
        const role = roleOf(token, tokens)
        yield* attempts.token(request, token, role !== undefined)
        if (role === undefined) return yield* unknown
        const { secret, until } = yield* sessions.begin(role, Redacted.make(token), sessionLasting)
        return HttpServerResponse.unsafeJson({
          role,
          until: Instant.format(until),
          environment,
          fleet: fleetFor(role)
        }).pipe(Credentials.setSessionCookie(request, secret, sessionLasting))
      })

    return handlers
      .handleRaw("login", ({ request }) => login(request))
      .handle("session", () =>
        Effect.map(Caller, ({ role, until }) => ({
          role,
          until: Instant.formatOrNull(until),
          environment,
          fleet: fleetFor(role)
        }))
      )
      .handleRaw("logout", ({ request }) =>
        Effect.gen(function* () {
          const secret = Credentials.sessionOf(request)
          if (secret !== undefined) {
            yield* sessions.end(secret)
            yield* events.endSession(secret)
          }
          return HttpServerResponse.empty({ status: 204 }).pipe(Credentials.clearSessionCookie(request))
        })
      )
  })
)

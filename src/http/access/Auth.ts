import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { type Duration, Effect, Option, type Redacted } from "effect"
import type { Role } from "../../access/Role.js"
import { isSecret } from "../../access/SessionSecret.js"
import type { RoleTokens, Sessions } from "../../access/Sessions.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { CrossSiteRefused, Forbidden, HostRefused, type TooManyRequests, Unauthorized } from "../RequestErrors.js"
import { isLoopback, type ServerConfig } from "../ServerConfig.js"
import type { Attempts } from "./Attempts.js"
import { sameSecret, tokenOf } from "./Bearer.js"
import type { CallerFacts } from "./Caller.js"
import { isSameOrigin } from "./SameOrigin.js"
import * as SessionCookie from "./SessionCookie.js"

type Config = Pick<typeof ServerConfig.Service, "host" | "adminToken" | "viewerToken">
type Request = HttpServerRequest.HttpServerRequest

const reading = new Set(["GET", "HEAD"])
const loopbackHost = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i

/** Where one logs in and out: the only acts that are not the admin's alone. */
const sessionPath = "/api/v1/session"

const pathOf = ({ url }: Request) => url.split("?")[0]

/** The contract holds no data, and generators of clients have no token. */
export const contractPath = "/api/v1/openapi.json"

/** Whether this may be asked by anybody. */
export const isOpen = (request: Request): boolean => {
  const path = pathOf(request)
  return (request.method === "POST" && path === sessionPath) || (reading.has(request.method) && path === contractPath)
}

export const tokensOf = ({ adminToken, viewerToken }: Config): RoleTokens => ({
  admin: adminToken,
  viewer: viewerToken
})

const bears = (given: string, token: Option.Option<Redacted.Redacted>) =>
  Option.isSome(token) && sameSecret(given, token.value)

/** Whose token this is. Both are compared whatever the first says: the time taken tells nothing. */
export const roleOf = (given: string, { admin, viewer }: RoleTokens): Role | undefined => {
  const isAdmin = bears(given, admin)
  const isViewer = bears(given, viewer)
  if (isAdmin) return "admin"
  return isViewer ? "viewer" : undefined
}

const unauthorized = ({ adminToken, viewerToken }: Config) =>
  new Unauthorized({
    message:
      Option.isNone(adminToken) && Option.isNone(viewerToken)
        ? "No token is set, so nobody is let in. Set NIGHTSHIFT_ADMIN_TOKEN, or NIGHTSHIFT_VIEWER_TOKEN for reading only, and start again."
        : "Send a token as `Authorization: Bearer <token>`: the one of NIGHTSHIFT_ADMIN_TOKEN, or of NIGHTSHIFT_VIEWER_TOKEN for reading only."
  })

/** Header text is bytes; whoever has more to say than ASCII sends it percent-encoded. */
const reasonOf = ({ headers }: Request): string | undefined => {
  const given = headers["x-reason"]?.trim()
  if (given === undefined || given === "") return undefined
  try {
    return decodeURIComponent(given)
  } catch {
    return given
  }
}

/** Where callers are looked up. */
export interface Registers {
  readonly sessions: typeof Sessions.Service
  readonly attempts: typeof Attempts.Service
  /** How long a login lasts without being used. */
  readonly lasting: Duration.Duration
}

type Refusal = Unauthorized | CrossSiteRefused | TooManyRequests | DatabaseError

/** Who comes, by the token they bear or by the login their browser brings along. */
export const identify = (
  config: Config,
  { attempts, lasting, sessions }: Registers
): Effect.Effect<CallerFacts, Refusal, Request> =>
  Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const { authorization } = request.headers
    const reason = reasonOf(request)
    const tokens = tokensOf(config)
    const secret = SessionCookie.secretOf(request)
    if (authorization !== undefined) {
      const given = tokenOf(authorization) ?? ""
      const role = roleOf(given, tokens)
      yield* attempts.token(request, given, role !== undefined)
      if (role === undefined) return yield* unauthorized(config)
      return { who: `api:${role}`, role, until: undefined, session: undefined, reason }
    }
    if (secret === undefined || !isSecret(secret)) return yield* unauthorized(config)
    const session = yield* attempts.lookUp(request, secret, sessions.find(secret, tokens, lasting))
    if (Option.isNone(session)) return yield* unauthorized(config)
    if (!reading.has(request.method) && !isSameOrigin(request.headers)) return yield* new CrossSiteRefused()
    const { role, until } = session.value
    return { who: `ui:${role}`, role, until, session: { secret, lasts: sessions.lasts(secret, tokens) }, reason }
  })

/** Lets the admin do everything, and a viewer read and log out. */
export const authorize = ({ role }: CallerFacts, request: Request): Effect.Effect<void, Forbidden> => {
  if (role === "admin" || reading.has(request.method) || pathOf(request) === sessionPath) return Effect.void
  const message = "This token is for reading only. Changes need the one of NIGHTSHIFT_ADMIN_TOKEN."
  return new Forbidden({ message })
}

/** On loopback, lets a request pass only when it was meant for this machine by name (DNS rebinding). */
export const checkHost = (config: Pick<Config, "host">): Effect.Effect<void, HostRefused, Request> =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) =>
    !isLoopback(config.host) || loopbackHost.test(headers.host ?? "") ? Effect.void : new HostRefused()
  )

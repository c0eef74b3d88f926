import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { type Duration, Effect, Option, type Redacted } from "effect"
import { isSession } from "../../access/Secrets.js"
import type { Role, RoleTokens, Sessions } from "../../access/Sessions.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { Membership } from "../../fleet/FleetConfig.js"
import {
  CrossSiteRefused,
  Forbidden,
  HostRefused,
  type Misdirected,
  type TooManyRequests,
  Unauthorized
} from "../RequestErrors.js"
import { isLoopback, type ServerConfig } from "../ServerConfig.js"
import * as WorkerTokens from "../WorkerTokens.js"
import type { Attempts } from "./Attempts.js"
import type { CallerFacts } from "./Caller.js"
import * as Credentials from "./Credentials.js"
import { bearerOf, isSameOrigin, sameSecret } from "./Credentials.js"
import * as ServedCell from "./ServedCell.js"

type Config = Pick<typeof ServerConfig.Service, "host" | "adminToken" | "viewerToken" | "workerTokens">
type Request = HttpServerRequest.HttpServerRequest

/** Methods that change nothing. */
export const reading = new Set(["GET", "HEAD"])
const loopbackHost = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i

/** The route for login and logout, the only changes that a viewer may make. */
const sessionPath = "/api/v1/session"

/** The routes for remote workers. */
const workPath = "/api/v1/work/"

const pathOf = ({ url }: Request) => url.split("?")[0]

/** The OpenAPI document contains no data, and client generators have no token. */
export const contractPath = "/api/v1/openapi.json"

/** Whether the request needs no authentication. */
export const isOpen = (request: Request): boolean => {
  const path = pathOf(request)
  return (request.method === "POST" && path === sessionPath) || (reading.has(request.method) && path === contractPath)
}

export const tokensOf = ({ adminToken, viewerToken }: Config): RoleTokens => ({
  admin: adminToken,
  viewer: viewerToken
})

const matches = (given: string, token: Option.Option<Redacted.Redacted>) =>
  Option.isSome(token) && sameSecret(given, token.value)

/** Returns the role of a token. Compares both tokens always, so the time taken does not depend on a match. */
export const roleOf = (given: string, { admin, viewer }: RoleTokens): Role | undefined => {
  const isAdmin = matches(given, admin)
  const isViewer = matches(given, viewer)
  if (isAdmin) return "admin"
  return isViewer ? "viewer" : undefined
}

/** The text depends only on whether a token was sent, never on its value. */
const unauthorized = ({ adminToken, viewerToken }: Config, sent: "no token" | "a token") => {
  if (Option.isNone(adminToken) && Option.isNone(viewerToken)) {
    const message =
      "No token is configured, so all requests are rejected. Set NIGHTSHIFT_ADMIN_TOKEN, or NIGHTSHIFT_VIEWER_TOKEN for read-only access, and restart."
    return new Unauthorized({ message })
  }
  const names = "the token of NIGHTSHIFT_ADMIN_TOKEN, or of NIGHTSHIFT_VIEWER_TOKEN for read-only access"
  const embedded = "A service with --embedded and neither of them keeps its token in .nightshift/admin-token."
  const message =
    sent === "a token"
      ? `The token is not valid. Use ${names}. ${embedded}`
      : `Send ${names}, as \`Authorization: Bearer <token>\`. ${embedded}`
  return new Unauthorized({ message })
}

/** Headers are limited to ASCII, so other text is sent percent-encoded. */
export const reasonOf = ({ headers }: Request): string | undefined => {
  const given = headers["x-reason"]?.trim()
  if (given === undefined || given === "") return undefined
  try {
    return decodeURIComponent(given)
  } catch {
    return given
  }
}

/** The name that a program gives for the language model it acts for. Colons separate the parts of an author. */
const agentOf = ({ headers }: Request): string | undefined =>
  headers["x-agent"]?.replace(/[^\w./@ -]+/g, "-").slice(0, 100)

export interface Registers {
  readonly sessions: typeof Sessions.Service
  readonly attempts: typeof Attempts.Service
  /** How long an unused login lasts. */
  readonly lasting: Duration.Duration
  readonly membership: Membership | undefined
}

type Refusal = Unauthorized | Misdirected | CrossSiteRefused | TooManyRequests | DatabaseError

/** Finds out who sent a request. Undefined if everyone may send it. */
export type Identify = Effect.Effect<CallerFacts | undefined, Refusal | HostRefused, Request>

/** Authenticates the caller by bearer token or session cookie. */
export const identify = (
  config: Config,
  { attempts, lasting, membership, sessions }: Registers
): Effect.Effect<CallerFacts, Refusal, Request> => {
  const workers = WorkerTokens.read(config.workerTokens)
  return Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const { authorization } = request.headers
    const reason = reasonOf(request)
    if (ServedCell.isForwarded(request)) return yield* ServedCell.identify(membership, attempts, request, reason)
    const tokens = tokensOf(config)
    const secret = Credentials.sessionOf(request)
    // A header with another scheme, such as Basic, is for a proxy in front of this service.
    if (authorization !== undefined && Credentials.isBearer(authorization)) {
      const given = bearerOf(authorization) ?? ""
      const role = roleOf(given, tokens)
      const worker = WorkerTokens.find(workers, given)
      yield* attempts.token(request, given, role !== undefined || worker !== undefined)
      if (role === undefined && worker !== undefined) {
        return { who: worker.who, role: "worker", queues: worker.queues, until: undefined, session: undefined, reason }
      }
      if (role === undefined) return yield* unauthorized(config, "a token")
      const agent = agentOf(request)
      const who = agent === undefined ? `api:${role}` : `agent:${agent}`
      return { who, role, isAgent: agent !== undefined, until: undefined, session: undefined, reason }
    }
    if (secret === undefined || !isSession(secret)) return yield* unauthorized(config, "no token")
    const session = yield* attempts.lookUp(request, secret, sessions.find(secret, tokens, lasting))
    if (Option.isNone(session)) return yield* unauthorized(config, "no token")
    if (!reading.has(request.method) && !isSameOrigin(request.headers)) return yield* new CrossSiteRefused()
    const { role, until } = session.value
    return { who: `ui:${role}`, role, until, session: { secret, lasts: sessions.lasts(secret, tokens) }, reason }
  })
}

/** Allows an admin everything, a viewer to read and to log out, and a worker to claim jobs and end them. */
export const authorize = ({ forwarded, role }: CallerFacts, request: Request): Effect.Effect<void, Forbidden> => {
  if (role === "worker") {
    const path = pathOf(request)
    return path?.startsWith(workPath) || (path === sessionPath && request.method === "GET")
      ? Effect.void
      : new Forbidden({
          message: `A token of NIGHTSHIFT_WORKER_TOKENS may only use ${workPath}claim, heartbeat and finish. Use the token of NIGHTSHIFT_ADMIN_TOKEN for other requests.`
        })
  }
  if (role === "admin" || reading.has(request.method) || pathOf(request) === sessionPath) return Effect.void
  if (forwarded === true)
    return new Forbidden({
      message:
        "This cell can only be viewed from other cells. Act in its own Mission Control, or set NIGHTSHIFT_FLEET_TOKEN to `<token>:admin` in the services of both cells."
    })
  return new Forbidden({
    message: "This login is read-only. Log in as an admin, or use the token of NIGHTSHIFT_ADMIN_TOKEN, to make changes."
  })
}

/** On loopback, requires a Host header that names this machine. Protects against DNS rebinding. */
export const checkHost = (config: Pick<Config, "host">): Effect.Effect<void, HostRefused, Request> =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) =>
    !isLoopback(config.host) || loopbackHost.test(headers.host ?? "") ? Effect.void : new HostRefused()
  )

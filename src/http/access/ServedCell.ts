import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { Context, Effect, Layer, Redacted } from "effect"
import type { ConfigError } from "effect/ConfigError"
import type { Cell } from "../../fleet/Fleet.js"
import * as FleetConfig from "../../fleet/FleetConfig.js"
import { Misdirected, type TooManyRequests, Unauthorized } from "../RequestErrors.js"
import type { Attempts } from "./Attempts.js"
import type { CallerFacts } from "./Caller.js"
import { bearerOf, sameSecret } from "./Credentials.js"

/** The cell of this service and its fleet. Undefined if it serves no cell: then it shows no fleet. */
export class ServedCell extends Context.Reference<ServedCell>()("nightshift/http/ServedCell", {
  defaultValue: (): FleetConfig.Membership | undefined => undefined
}) {
  static readonly layer: Layer.Layer<ServedCell, FleetConfig.FleetInvalid | FleetConfig.UnknownCell | ConfigError> =
    Layer.effect(ServedCell, FleetConfig.membership)
}

// A service forwards requests of its callers to another cell with the fleet token. Headers name the cell that is meant and the
// caller; only this token makes them count.

const headers = {
  cell: "x-nightshift-cell",
  caller: "x-nightshift-caller",
  role: "x-nightshift-role",
  agent: "x-agent"
} as const

const maxNameCharacters = 250

type Request = Pick<HttpServerRequest.HttpServerRequest, "headers">

export const isForwarded = (request: Request): boolean => request.headers[headers.cell] !== undefined

/** The headers of a request to another cell. Its role is the lower one of the caller's and the token's. */
export const headersFor = (
  from: Cell,
  { mayAct, secret }: FleetConfig.FleetToken,
  to: Cell,
  { isAgent, role, who }: Pick<CallerFacts, "isAgent" | "role" | "who">
): Readonly<Record<string, string>> => ({
  authorization: `Bearer ${Redacted.value(secret)}`,
  [headers.cell]: to.name,
  [headers.caller]: encodeURIComponent(`${who}@${from.name}`),
  [headers.role]: role === "admin" && mayAct ? "admin" : "viewer",
  ...(isAgent === true ? { [headers.agent]: "forwarded" } : {})
})

const callerIn = (request: Request): string => {
  try {
    return decodeURIComponent(request.headers[headers.caller] ?? "").slice(0, maxNameCharacters) || "fleet"
  } catch {
    return "fleet"
  }
}

/** Identifies the caller of a forwarded request. */
export const identify = (
  membership: FleetConfig.Membership | undefined,
  attempts: typeof Attempts.Service,
  request: HttpServerRequest.HttpServerRequest,
  reason: string | undefined
): Effect.Effect<CallerFacts, Unauthorized | Misdirected | TooManyRequests> =>
  Effect.gen(function* () {
    const given = bearerOf(request.headers.authorization) ?? ""
    const token = membership?.token
    const isRight = token !== undefined && sameSecret(given, token.secret)
    yield* attempts.token(request, given, isRight)
    if (!isRight)
      return yield* new Unauthorized({
        message:
          "The fleet token is not valid. Set NIGHTSHIFT_FLEET_TOKEN to the same value in the services of all cells."
      })
    const wanted = request.headers[headers.cell]
    if (wanted !== membership?.cell.name)
      return yield* new Misdirected({
        message: `This is cell ${membership?.cell.name}, but the request is for cell ${wanted}. Correct \`api\` of ${wanted} in the fleet file.`
      })
    const role = request.headers[headers.role] === "admin" && token.mayAct ? "admin" : "viewer"
    const isAgent = request.headers[headers.agent] !== undefined
    return { who: callerIn(request), role, isAgent, until: undefined, session: undefined, reason, forwarded: true }
  })

import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { Effect, Option, type Redacted } from "effect"
import { sameSecret, tokenOf } from "./Bearer.js"
import { Forbidden, HostRefused, Unauthorized } from "./RequestErrors.js"
import { isLoopback, type ServerConfig } from "./ServerConfig.js"

type Config = Pick<typeof ServerConfig.Service, "host" | "adminToken" | "viewerToken">

const reading = new Set(["GET", "HEAD"])
const loopbackHost = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i

const bears = (given: string, token: Option.Option<Redacted.Redacted>) =>
  Option.isSome(token) && sameSecret(given, token.value)

const unauthorized = ({ adminToken, viewerToken }: Config) =>
  new Unauthorized({
    message:
      Option.isNone(adminToken) && Option.isNone(viewerToken)
        ? "No token is set, so nobody is let in. Set NIGHTSHIFT_ADMIN_TOKEN, or NIGHTSHIFT_VIEWER_TOKEN for reading only, and start again."
        : "Send a token as `Authorization: Bearer <token>`: the one of NIGHTSHIFT_ADMIN_TOKEN, or of NIGHTSHIFT_VIEWER_TOKEN for reading only."
  })

/** Lets a request pass that bears the token its act needs: the viewer's to read, the admin's for all else. */
export const checkToken = (
  config: Config
): Effect.Effect<void, Unauthorized | Forbidden, HttpServerRequest.HttpServerRequest> =>
  Effect.gen(function* () {
    const { headers, method } = yield* HttpServerRequest.HttpServerRequest
    const given = tokenOf(headers.authorization) ?? ""
    // Both are compared whatever the first says: the time taken tells nothing.
    const isAdmin = bears(given, config.adminToken)
    const isViewer = bears(given, config.viewerToken)
    if (isAdmin) return
    if (!isViewer) return yield* unauthorized(config)
    if (reading.has(method)) return
    const message = "This token is for reading only. Changes need the one of NIGHTSHIFT_ADMIN_TOKEN."
    return yield* new Forbidden({ message })
  })

/** On loopback, lets a request pass only when it was meant for this machine by name (DNS rebinding). */
export const checkHost = (
  config: Pick<Config, "host">
): Effect.Effect<void, HostRefused, HttpServerRequest.HttpServerRequest> =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) =>
    !isLoopback(config.host) || loopbackHost.test(headers.host ?? "") ? Effect.void : new HostRefused()
  )

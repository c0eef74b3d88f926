import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Duration, Redacted } from "effect"
import * as HttpUrl from "../../core/HttpUrl.js"

export { isSame as sameSecret } from "../../access/ConstantTime.js"

/** Whether an Authorization header is for a token, which may be missing or malformed. */
export const isBearer = (authorization: string): boolean => /^Bearer(?:\s|$)/i.test(authorization)

/** Returns the token of an `Authorization: Bearer` header. */
export const bearerOf = (authorization: string | undefined): string | undefined =>
  /^Bearer +(\S+) *$/i.exec(authorization ?? "")?.[1]

const cookieName = "nightshift_session"

/** Returns the session secret from the cookie. */
export const sessionOf = (request: HttpServerRequest.HttpServerRequest): string | undefined => {
  const secret = request.cookies[cookieName]
  return secret === undefined || secret === "" ? undefined : secret
}

/** Behind a proxy our connection may be plain HTTP while the browser's is HTTPS. */
const isSecure = (request: HttpServerRequest.HttpServerRequest): boolean =>
  request.headers["x-forwarded-proto"]?.split(",")[0]?.trim().toLowerCase() === "https"

const cookie = (
  request: HttpServerRequest.HttpServerRequest,
  value: string,
  maxAge: Duration.DurationInput
): ((response: HttpServerResponse.HttpServerResponse) => HttpServerResponse.HttpServerResponse) =>
  HttpServerResponse.unsafeSetCookie(cookieName, value, {
    path: "/",
    httpOnly: true,
    sameSite: "strict",
    secure: isSecure(request),
    maxAge
  })

/** Sets the cookie: HttpOnly, so scripts cannot read it, and SameSite=Strict, so other sites cannot send it. */
export const setSessionCookie = (
  request: HttpServerRequest.HttpServerRequest,
  secret: Redacted.Redacted,
  lasting: Duration.Duration
) => cookie(request, Redacted.value(secret), lasting)

export const clearSessionCookie = (request: HttpServerRequest.HttpServerRequest) => cookie(request, "", Duration.zero)

type Headers = Readonly<Record<string, string | undefined>>

/** The host as the browser knows it. A proxy may use a different one to reach us. */
const hostOf = (headers: Headers) => headers["x-forwarded-host"]?.split(",")[0]?.trim() ?? headers.host

const hostIn = (origin: string): string | undefined => HttpUrl.parse(origin)?.host

/** Whether one of our own pages sent the request. Uses Sec-Fetch-Site, or Origin for older browsers. */
export const isSameOrigin = (headers: Headers): boolean => {
  const site = headers["sec-fetch-site"]
  if (site !== undefined) return site === "same-origin"
  const { origin } = headers
  return origin !== undefined && hostIn(origin) !== undefined && hostIn(origin) === hostOf(headers)
}

/** Whether another site's page sent the request. Programs send neither header. */
export const isForeign = (headers: Headers): boolean =>
  (headers["sec-fetch-site"] !== undefined || headers.origin !== undefined) && !isSameOrigin(headers)

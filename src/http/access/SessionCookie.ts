import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Duration, Redacted } from "effect"

const name = "nightshift_session"

/** Returns the session secret from the cookie. */
export const secretOf = (request: HttpServerRequest.HttpServerRequest): string | undefined => {
  const secret = request.cookies[name]
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
  HttpServerResponse.unsafeSetCookie(name, value, {
    path: "/",
    httpOnly: true,
    sameSite: "strict",
    secure: isSecure(request),
    maxAge
  })

/** Sets the cookie: HttpOnly, so scripts cannot read it, and SameSite=Strict, so other sites cannot send it. */
export const give = (
  request: HttpServerRequest.HttpServerRequest,
  secret: Redacted.Redacted,
  lasting: Duration.Duration
) => cookie(request, Redacted.value(secret), lasting)

export const take = (request: HttpServerRequest.HttpServerRequest) => cookie(request, "", Duration.zero)

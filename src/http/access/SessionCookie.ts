import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Duration, Redacted } from "effect"

const name = "nightshift_session"

/** What the visitor's browser brought along. */
export const secretOf = (request: HttpServerRequest.HttpServerRequest): string | undefined => {
  const secret = request.cookies[name]
  return secret === undefined || secret === "" ? undefined : secret
}

/** Behind a proxy the way to us may be plain while the visitor's is not. */
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

/** Scripts cannot read it, and no other site's page can have it sent. */
export const give = (
  request: HttpServerRequest.HttpServerRequest,
  secret: Redacted.Redacted,
  lasting: Duration.Duration
) => cookie(request, Redacted.value(secret), lasting)

export const take = (request: HttpServerRequest.HttpServerRequest) => cookie(request, "", Duration.zero)

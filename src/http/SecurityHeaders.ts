import * as HttpServerResponse from "@effect/platform/HttpServerResponse"

/** Default headers: no scripts or resources, no framing, no caching. */
const usual = {
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cache-control": "no-store"
}

/** Adds the default headers that a response does not set itself. */
export const complete = (response: HttpServerResponse.HttpServerResponse): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.setHeaders(response, { ...usual, ...response.headers })

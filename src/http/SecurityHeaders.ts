import * as HttpServerResponse from "@effect/platform/HttpServerResponse"

/** What holds for every answer that does not say otherwise: it is no page, nobody frames it, nobody keeps it. */
const usual = {
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cache-control": "no-store"
}

/** The answer with every header that it has not set itself. */
export const complete = (response: HttpServerResponse.HttpServerResponse): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.setHeaders(response, { ...usual, ...response.headers })

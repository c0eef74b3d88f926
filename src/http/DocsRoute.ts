import { createHash } from "node:crypto"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as OpenApi from "@effect/platform/OpenApi"
import { Effect } from "effect"
import { Api } from "./Api.js"
import * as DocsPage from "./DocsPage.js"

const styleHash = createHash("sha256").update(DocsPage.style).digest("base64")

/** Allows only the page's own style sheet: no scripts and no other resources. */
const policy = `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

let made: string | undefined

/** Generated from the contract on the first request. */
const page = Effect.sync(() => {
  made ??= DocsPage.render(OpenApi.fromApi(Api))
  return HttpServerResponse.text(made, {
    contentType: "text/html; charset=utf-8",
    headers: { "content-security-policy": policy }
  })
})

/** The API documentation. It contains no data, so it needs no token. */
export const router = HttpRouter.empty.pipe(HttpRouter.get("/docs", page))

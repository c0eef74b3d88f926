import { createHash } from "node:crypto"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as OpenApi from "@effect/platform/OpenApi"
import { Effect } from "effect"
import { Api } from "./Api.js"
import * as DocsPage from "./DocsPage.js"

const styleHash = createHash("sha256").update(DocsPage.style).digest("base64")

/** Looser than elsewhere by its own style sheet and by nothing else: no script runs, and nothing is loaded. */
const policy = `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

let made: string | undefined

/** Made from the contract when somebody first asks for it. */
const page = Effect.sync(() => {
  made ??= DocsPage.render(OpenApi.fromApi(Api))
  return HttpServerResponse.text(made, {
    contentType: "text/html; charset=utf-8",
    headers: { "content-security-policy": policy }
  })
})

/** The contract, for people. It holds no data, so anybody may read it. */
export const router = HttpRouter.empty.pipe(HttpRouter.get("/docs", page))

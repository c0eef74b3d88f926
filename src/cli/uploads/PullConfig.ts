import { Context, Either, Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as HttpUrl from "../../core/HttpUrl.js"
import * as Setting from "../../core/Setting.js"

const readUrl = (text: string) => {
  const url = HttpUrl.plain(text)
  return url !== undefined && url.search === "" && url.hash === ""
    ? Either.right(text.replace(/\/+$/, ""))
    : Either.left("a URL like https://nightshift.example.org")
}

/** Other characters cannot be sent, and the error of the HTTP client would quote the token. */
const readToken = (text: string) =>
  /^[!-~]+$/.test(text) ? Either.right(text) : Either.left("a token made by `nightshift uploads tokens create`")

export const settings = {
  url: Setting.text(
    { key: "UPLOADS_URL", about: "URL of the service that `uploads pull` fetches files from." },
    "http://127.0.0.1:8787",
    readUrl
  ),
  token: Setting.secret({ key: "UPLOADS_TOKEN", about: "Workspace token of `uploads pull`." }, readToken)
}

/** Service URL and token of `nightshift uploads pull`. */
export class PullConfig extends Context.Tag("nightshift/cli/PullConfig")<
  PullConfig,
  Setting.Values<typeof settings>
>() {
  static readonly layer: Layer.Layer<PullConfig, ConfigError> = Layer.effect(PullConfig, Setting.group(settings))
}

import { Context, Either, Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as HttpUrl from "../../core/HttpUrl.js"
import * as Setting from "../../core/Setting.js"

const readUrl = (text: string) =>
  HttpUrl.parse(text) !== undefined
    ? Either.right(text.replace(/\/+$/, ""))
    : Either.left("a URL like https://nightshift.example.org")

export const settings = {
  url: Setting.text(
    { key: "UPLOADS_URL", about: "URL of the service that `uploads pull` fetches files from." },
    "http://127.0.0.1:8787",
    readUrl
  ),
  token: Setting.secret({ key: "UPLOADS_TOKEN", about: "Workspace token of `uploads pull`." })
}

/** Service URL and token of `nightshift uploads pull`. */
export class PullConfig extends Context.Tag("nightshift/cli/PullConfig")<
  PullConfig,
  Setting.Values<typeof settings>
>() {
  static readonly layer: Layer.Layer<PullConfig, ConfigError> = Layer.effect(PullConfig, Setting.group(settings))
}

import { Context, Effect, Either, Layer, Option, Schema } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../core/Setting.js"
import * as ClientAddress from "./ClientAddress.js"
import * as WorkerTokens from "./WorkerTokens.js"

/** No client can send a token with spaces as `Authorization: Bearer`, and clients encode characters other than ASCII differently. */
const readToken = (token: string) =>
  /^[!-~]+$/.test(token)
    ? Either.right(token)
    : Either.left("ASCII characters without spaces, such as the output of openssl rand -hex 24")

export const settings = {
  host: Setting.text(
    { key: "HOST", about: "Address to listen on. Any address other than loopback requires NIGHTSHIFT_ADMIN_TOKEN." },
    "127.0.0.1"
  ),
  port: Setting.integer({ key: "PORT", about: "Port to listen on. 0 chooses a free port." }, 8787, {
    min: 0,
    max: 65535
  }),
  adminToken: Setting.secret(
    { key: "NIGHTSHIFT_ADMIN_TOKEN", about: "Grants full access to the API and Mission Control." },
    readToken
  ),
  viewerToken: Setting.secret(
    { key: "NIGHTSHIFT_VIEWER_TOKEN", about: "Grants read-only access to the API and Mission Control." },
    readToken
  ),
  workerTokens: Setting.secret(
    {
      key: "NIGHTSHIFT_WORKER_TOKENS",
      about:
        "Tokens of remote workers and the queues whose jobs they may run: `<token>:images,mail`, several separated by spaces. `<token>:*` allows all queues. A token has at least 24 characters."
    },
    WorkerTokens.check
  ),
  metricsToken: Setting.secret(
    {
      key: "NIGHTSHIFT_METRICS_TOKEN",
      about: "Token required to read /metrics. If unset, /metrics is open to every client that can reach the port."
    },
    readToken
  ),
  trustProxy: Setting.text(
    {
      key: "NIGHTSHIFT_TRUST_PROXY",
      about:
        "Comma-separated addresses or ranges of trusted proxies, whose X-Forwarded-For header gives the client address. If unset, the header is ignored."
    },
    "",
    ClientAddress.readProxies
  )
}

/** The server would be reachable from other machines without authentication. */
export class UnprotectedAddress extends Schema.TaggedError<UnprotectedAddress>()("UnprotectedAddress", {
  host: Schema.String
}) {
  override get message(): string {
    return `Listening on ${this.host} makes the server reachable from other machines, but no token is set. Set NIGHTSHIFT_ADMIN_TOKEN, or listen on 127.0.0.1.`
  }
}

export const isLoopback = (host: string) => host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host)

/** Settings of the HTTP server. */
export class ServerConfig extends Context.Tag("nightshift/http/ServerConfig")<
  ServerConfig,
  Setting.Values<typeof settings>
>() {
  static readonly layer: Layer.Layer<ServerConfig, ConfigError | UnprotectedAddress> = Layer.effect(
    ServerConfig,
    Effect.filterOrFail(
      Setting.group(settings),
      (config) => isLoopback(config.host) || Option.isSome(config.adminToken),
      (config) => new UnprotectedAddress({ host: config.host })
    )
  )
}

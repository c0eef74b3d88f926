import { Context, Effect, Layer, Option, Schema } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../core/Setting.js"
import * as ClientAddress from "./access/ClientAddress.js"

export const settings = {
  host: Setting.text(
    { key: "HOST", about: "The address to listen on. Anything but loopback needs NIGHTSHIFT_ADMIN_TOKEN." },
    "127.0.0.1"
  ),
  port: Setting.integer({ key: "PORT", about: "The port to listen on; 0 takes a free one." }, 8787, {
    min: 0,
    max: 65535
  }),
  adminToken: Setting.secret({ key: "NIGHTSHIFT_ADMIN_TOKEN", about: "Who bears it may do everything." }),
  viewerToken: Setting.secret({
    key: "NIGHTSHIFT_VIEWER_TOKEN",
    about: "Who bears it may read everything and change nothing."
  }),
  metricsToken: Setting.secret({
    key: "NIGHTSHIFT_METRICS_TOKEN",
    about: "Who reads /metrics must bear it. Unset, /metrics is open to whoever reaches the port."
  }),
  trustProxy: Setting.text(
    {
      key: "NIGHTSHIFT_TRUST_PROXY",
      about:
        "Addresses or ranges of the proxies in front, separated by commas. Their X-Forwarded-For header names the client; unset, no header is believed."
    },
    "",
    ClientAddress.readProxies
  )
}

/** The doors would stand open to other machines with nobody asking who comes in. */
export class OpenDoorRefused extends Schema.TaggedError<OpenDoorRefused>()("OpenDoorRefused", {
  host: Schema.String
}) {
  override get message(): string {
    return `Listening on ${this.host} lets other machines in, and no token is set. Set NIGHTSHIFT_ADMIN_TOKEN, or listen on 127.0.0.1.`
  }
}

/** Whether only this machine can reach the address. */
export const isLoopback = (host: string) => host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host)

/** Where and to whom the doors open. */
export class ServerConfig extends Context.Tag("nightshift/http/ServerConfig")<
  ServerConfig,
  Setting.Values<typeof settings>
>() {
  static readonly layer: Layer.Layer<ServerConfig, ConfigError | OpenDoorRefused> = Layer.effect(
    ServerConfig,
    Effect.filterOrFail(
      Setting.group(settings),
      (config) => isLoopback(config.host) || Option.isSome(config.adminToken),
      (config) => new OpenDoorRefused({ host: config.host })
    )
  )
}

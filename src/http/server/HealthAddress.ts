import { Context, Effect, Option } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../../core/Setting.js"
import { shown } from "../../core/Storable.js"
import type { HealthOptions } from "./HealthOptions.js"

const ports = { min: 0, max: 65_535 }

/** What Kubernetes sets NIGHTSHIFT_WORKER_PORT to in every pod, if a Service is named nightshift-worker. */
const serviceLink = /^(?:tcp|udp|sctp):\/\//

export const settings = {
  port: Setting.optionalInteger(
    {
      key: "NIGHTSHIFT_WORKER_PORT",
      about:
        "Port on which a process that calls `worker()` serves /healthz, /readyz and /metrics. 0 chooses a free port. If unset, only a worker with the option `health` serves them. `nightshift serve` uses `PORT`.",
      absent: serviceLink
    },
    ports
  ),
  host: Setting.text(
    {
      key: "NIGHTSHIFT_WORKER_HOST",
      about: "Address of that port. Kubernetes probes and a Prometheus on another machine need `0.0.0.0`."
    },
    "127.0.0.1"
  )
}

/** The address of the server, and what sets each part of it. */
export interface HealthAddress {
  readonly host: string
  readonly port: number
  readonly settings: { readonly host: string; readonly port: string }
}

/** The server of a worker's health checks and metrics. */
export class Health extends Context.Tag("nightshift/http/Health")<
  Health,
  {
    /** Address of the server, with the port that it listens on: `http://127.0.0.1:9090`. */
    readonly url: string
  }
>() {}

/** What is wrong with the options: the option's name, and a sentence that starts with it. */
export const fault = ({ host, port }: HealthOptions): readonly [option: string, message: string] | undefined => {
  if (port !== undefined && (!Number.isInteger(port) || port < ports.min || port > ports.max))
    return ["health.port", `health.port must be a whole number from 0 to 65535, got ${shown(port)}.`]
  return host === undefined || (typeof host === "string" && host !== "")
    ? undefined
    : ["health.host", `health.host must be an address to listen on, such as 0.0.0.0, got ${shown(host)}.`]
}

/** The sentence for options without a port. */
export const portMissing = `health.port is missing. Set it, or set ${settings.port.key}.`

/** Options take precedence over the environment. None if neither has a port. */
export const addressOf = ({ host, port }: HealthOptions): Effect.Effect<Option.Option<HealthAddress>, ConfigError> =>
  Effect.map(Setting.group(settings), (environment) =>
    Option.map(
      Option.orElse(Option.fromNullable(port), () => environment.port),
      (found) => ({
        host: host ?? environment.host,
        port: found,
        settings: {
          host: host === undefined ? settings.host.key : "health.host",
          port: port === undefined ? settings.port.key : "health.port"
        }
      })
    )
  )

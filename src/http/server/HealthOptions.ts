import { Context } from "effect"
import { shown } from "../../core/Storable.js"

/** Where the server of health checks and metrics listens. */
export interface HealthOptions {
  /** Port to listen on. 0 chooses a free port. */
  readonly port: number
  /** Address to listen on. [127.0.0.1] */
  readonly host?: string | undefined
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
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    return ["health.port", `health.port must be a whole number from 0 to 65535, got ${shown(port)}.`]
  return host === undefined || (typeof host === "string" && host !== "")
    ? undefined
    : ["health.host", `health.host must be an address to listen on, such as 0.0.0.0, got ${shown(host)}.`]
}

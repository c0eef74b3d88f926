import { ConfigError, Effect, Layer, Option } from "effect"
import type { Services } from "../../worker/Nightshift.js"
import type { Worker } from "../../worker/Worker.js"
import { addressOf, fault, type Health, portMissing, settings } from "./HealthAddress.js"
import type { HealthOptions } from "./HealthOptions.js"
import type { ListenFailed } from "./Listening.js"

// Imports no HTTP code: programs load it only if they serve health checks.

export { Health } from "./HealthAddress.js"
export type { HealthOptions } from "./HealthOptions.js"

/**
 * Serves `/healthz`, `/readyz` and `/metrics` while a worker starts, runs and stops, with the answers of `nightshift serve`.
 * `/metrics` requires NIGHTSHIFT_METRICS_TOKEN if it is set. Without a port in the options it uses NIGHTSHIFT_WORKER_PORT.
 */
export const serve =
  (options: HealthOptions = {}) =>
  <E, R>(
    worker: Layer.Layer<Worker, E, R>
  ): Layer.Layer<Worker | Health, E | ListenFailed | ConfigError.ConfigError, R | Services> =>
    Layer.unwrapEffect(
      Effect.gen(function* () {
        const found = fault(options)
        if (found !== undefined) return yield* Effect.fail(ConfigError.InvalidData(found[0].split("."), found[1]))
        const address = yield* addressOf(options)
        if (Option.isNone(address)) return yield* Effect.fail(ConfigError.MissingData([settings.port.key], portMissing))
        const { around } = yield* Effect.promise(() => import("./HealthServer.js"))
        return around(address.value, worker)
      })
    )

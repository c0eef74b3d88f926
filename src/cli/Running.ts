import { Effect, type Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Logging from "../telemetry/Logging.js"
import * as Environment from "./Environment.js"
import * as Settings from "./Settings.js"

/** Runs a command with its flags as configuration. Validates all settings before the command starts. */
export const configured =
  (flags: Environment.Texts) =>
  <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E | ConfigError, R> =>
    Effect.zipRight(Settings.validate, Effect.provide(work, Logging.layer as Layer.Layer<never, ConfigError>)).pipe(
      Effect.withConfigProvider(Environment.make(flags).provider)
    )

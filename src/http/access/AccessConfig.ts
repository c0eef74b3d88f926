import { Context, Either, Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../../core/Setting.js"
import * as Masking from "../../telemetry/Masking.js"

/** A name is shown in titles and on a narrow strip, so it is short and has no marks that reorder text. */
const readEnvironment = (name: string): Either.Either<string, string> =>
  /^[\p{L}\p{N} ._-]{1,32}$/u.test(name)
    ? Either.right(name)
    : Either.left("a name of at most 32 letters, digits, spaces, dots, dashes and underscores")

export const settings = {
  environment: Setting.optionalText(
    {
      key: "NIGHTSHIFT_ENVIRONMENT",
      about:
        "Name of this installation, such as `production` or `staging`. Mission Control shows it as a coloured strip, in dialogs and in the title."
    },
    readEnvironment
  ),
  sessionLasting: Setting.positiveDuration(
    {
      key: "NIGHTSHIFT_SESSION",
      about: "How long an unused Mission Control login lasts. Values of 0 or less use the default."
    },
    "12h"
  ),
  apiRate: Setting.integer(
    { key: "API_RATE_LIMIT", about: "Maximum API requests per second for one token. 0 disables the limit." },
    500,
    { min: 0, max: 1_000_000 }
  ),
  listeners: Setting.integer(
    { key: "LIVE_LISTENERS", about: "Maximum number of concurrent live event streams of this process." },
    100,
    { min: 0, max: 10_000 }
  )
}

/** Settings for authenticated callers. */
export class AccessConfig extends Context.Tag("nightshift/http/AccessConfig")<
  AccessConfig,
  Setting.Values<typeof settings & typeof Masking.settings>
>() {
  static readonly layer: Layer.Layer<AccessConfig, ConfigError> = Layer.effect(
    AccessConfig,
    Setting.group({ ...settings, ...Masking.settings })
  )
}

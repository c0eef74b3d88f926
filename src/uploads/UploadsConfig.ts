import { ConfigProvider, Context, Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../core/Setting.js"

export const settings = {
  maxFile: Setting.bytes({ key: "UPLOADS_MAX_FILE", about: "How large one uploaded file may be." }, "25MiB"),
  maxRequest: Setting.bytes(
    { key: "UPLOADS_MAX_REQUEST", about: "How large all files of one request may be together." },
    "100MiB"
  ),
  quota: Setting.bytes(
    {
      key: "UPLOADS_QUOTA",
      about: "How much is kept for one workspace. Acknowledged files count until they are swept."
    },
    "1GiB"
  ),
  expiry: Setting.positiveDuration(
    {
      key: "UPLOADS_EXPIRY",
      about: "How long a file waits to be acknowledged. Not positive means the default."
    },
    "24h"
  ),
  timeout: Setting.positiveDuration(
    { key: "UPLOADS_TIMEOUT", about: "How long a request with files may take. Not positive means the default." },
    "10m"
  ),
  stallTimeout: Setting.positiveDuration(
    {
      key: "UPLOADS_STALL_TIMEOUT",
      about: "How long a request with files may bring nothing. Not positive means the default."
    },
    "30s"
  ),
  jobKind: Setting.optionalText({
    key: "UPLOADS_JOB_KIND",
    about: "For each file that arrives, a job of this kind is enqueued in the same transaction."
  })
}

/** What the upload inbox takes, and for how long. */
export class UploadsConfig extends Context.Tag("nightshift/uploads/UploadsConfig")<
  UploadsConfig,
  Setting.Values<typeof settings>
>() {
  static readonly layer: Layer.Layer<UploadsConfig, ConfigError> = Layer.effect(UploadsConfig, Setting.group(settings))

  /** The defaults, whatever the environment says. */
  static readonly layerDefault: Layer.Layer<UploadsConfig> = UploadsConfig.layer.pipe(
    Layer.provide(Layer.setConfigProvider(ConfigProvider.fromMap(new Map()))),
    Layer.orDie
  )
}

import { ConfigProvider, Context, Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../core/Setting.js"

export const settings = {
  maxFile: Setting.bytes({ key: "UPLOADS_MAX_FILE", about: "Maximum size of one uploaded file." }, "25MiB"),
  maxRequest: Setting.bytes(
    { key: "UPLOADS_MAX_REQUEST", about: "Maximum total size of the files in one request." },
    "100MiB"
  ),
  quota: Setting.bytes(
    {
      key: "UPLOADS_QUOTA",
      about: "Maximum total size of the files stored for one workspace. Acknowledged files count until they are swept."
    },
    "1GiB"
  ),
  expiry: Setting.positiveDuration(
    {
      key: "UPLOADS_EXPIRY",
      about: "How long a file is kept if it is not acknowledged. Values of 0 or less use the default."
    },
    "24h"
  ),
  timeout: Setting.positiveDuration(
    { key: "UPLOADS_TIMEOUT", about: "Timeout of an upload request. Values of 0 or less use the default." },
    "10m"
  ),
  stallTimeout: Setting.positiveDuration(
    {
      key: "UPLOADS_STALL_TIMEOUT",
      about: "How long an upload request may send no data before it is aborted. Values of 0 or less use the default."
    },
    "30s"
  ),
  jobKind: Setting.optionalText({
    key: "UPLOADS_JOB_KIND",
    about: "Enqueue a job of this kind for each uploaded file, in the same transaction."
  })
}

/** Settings of the upload inbox. */
export class UploadsConfig extends Context.Tag("nightshift/uploads/UploadsConfig")<
  UploadsConfig,
  Setting.Values<typeof settings>
>() {
  static readonly layer: Layer.Layer<UploadsConfig, ConfigError> = Layer.effect(UploadsConfig, Setting.group(settings))

  /** The defaults, ignoring the environment. */
  static readonly layerDefault: Layer.Layer<UploadsConfig> = UploadsConfig.layer.pipe(
    Layer.provide(Layer.setConfigProvider(ConfigProvider.fromMap(new Map()))),
    Layer.orDie
  )
}

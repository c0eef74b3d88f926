import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Context, Layer } from "effect"

/** Everything under `/ui`. A tag, because the dashboard may not be imported from here; the program provides it. */
export class UiApp extends Context.Tag("nightshift/http/UiApp")<UiApp, HttpApp.Default>() {
  /** For a process without Mission Control. */
  static readonly layerNone: Layer.Layer<UiApp> = Layer.succeed(UiApp, HttpServerResponse.empty({ status: 404 }))
}

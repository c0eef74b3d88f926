import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Context, Layer } from "effect"

/** What is served under `/ui`. The pages stand on the same floor as the doors, so whoever puts the house together brings them. */
export class UiApp extends Context.Tag("nightshift/http/UiApp")<UiApp, HttpApp.Default>() {
  /** A process without pages. */
  static readonly layerNone: Layer.Layer<UiApp> = Layer.succeed(UiApp, HttpServerResponse.empty({ status: 404 }))
}

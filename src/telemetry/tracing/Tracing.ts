import { Context, DefaultServices, Effect, Layer, Tracer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../../core/Setting.js"
import * as OtlpExporter from "./OtlpExporter.js"
import { OtlpSpan } from "./OtlpSpan.js"
import { type Collector, collectorOf, settings } from "./TracingConfig.js"

// Services that store or run jobs read the tracer once, when they are built, and skip tracing if there is none.

/** The tracer for sent and processed jobs; undefined by default. */
export class Tracing extends Context.Reference<Tracing>()("nightshift/telemetry/Tracing", {
  defaultValue: (): Tracer.Tracer | undefined => undefined
}) {
  /**
   * Sends spans of jobs and handlers to the collector in the OTEL settings. Without one, uses the tracer that the
   * surrounding program has installed.
   */
  static readonly layer = (version: string): Layer.Layer<Tracing, ConfigError> =>
    Layer.scoped(
      Tracing,
      Effect.gen(function* () {
        const collector = collectorOf(yield* Setting.group(settings))
        return collector === undefined ? yield* installed : yield* sending(collector, version)
      })
    )
}

const usual = Context.get(DefaultServices.liveServices, Tracer.Tracer)

const installed = Effect.map(Effect.tracer, (tracer) => (tracer === usual ? undefined : tracer))

const sending = (collector: Collector, version: string) =>
  Effect.map(OtlpExporter.make(collector, version), (send) =>
    Tracer.make({
      span: (name, parent, context, links, startTime, kind) =>
        new OtlpSpan(name, parent, context, links, startTime, kind, send),
      context: (run) => run()
    })
  )

import { Context, DefaultServices, Effect, Layer, Tracer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../../core/Setting.js"
import * as OtlpExporter from "./OtlpExporter.js"
import { OtlpSpan } from "./OtlpSpan.js"
import { type Collector, collectorOf, settings } from "./TracingConfig.js"

// Whoever stores or runs jobs asks for the tracer once, when it is built, and leaves all of it out where there is none.

/** Who hears of jobs that are sent and processed; nobody, unless somebody asked for it. */
export class Tracing extends Context.Reference<Tracing>()("nightshift/telemetry/Tracing", {
  defaultValue: (): Tracer.Tracer | undefined => undefined
}) {
  /**
   * The collector of the standard settings hears of jobs, and of what handlers do in them. Without one, a tracer that the
   * surrounding program has installed does.
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

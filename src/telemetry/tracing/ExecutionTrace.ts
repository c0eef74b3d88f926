import { Context, Option, Tracer } from "effect"
import type { JobId } from "../../core/Ids.js"
import * as TraceParent from "./TraceParent.js"

// Every workflow execution is a trace. Its ids are derived from the id of the execution's job, so that all runs share it,
// in any process and after any suspension, without storing anything.

/** The trace of an execution, as the id of its root span. */
export const of = (id: JobId, sampled = true): Tracer.ExternalSpan => {
  const traceId = id.replaceAll("-", "")
  return Tracer.externalSpan({ traceId, spanId: traceId.slice(16), sampled })
}

/** The trace of a claimed execution. It is sampled if the span that started the execution is. */
export const ofJob = ({ id, meta }: { readonly id: JobId; readonly meta: unknown }): Tracer.ExternalSpan =>
  of(id, Option.match(TraceParent.ofMeta(meta), { onNone: () => true, onSome: ({ sampled }) => sampled }))

/** Set in the context of a span that is the root itself: it takes the ids of its parent. */
export class IsRoot extends Context.Reference<IsRoot>()("nightshift/telemetry/IsRoot", {
  defaultValue: () => false
}) {}

export const link = (span: Tracer.AnySpan): Tracer.SpanLink => ({ _tag: "SpanLink", span, attributes: {} })

import { Option, Predicate, Tracer } from "effect"

// The W3C trace context in a job's meta. Any program that reads meta can continue the trace.

export const key = "traceparent"

const pattern = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})/

export const format = ({ sampled, spanId, traceId }: Pick<Tracer.AnySpan, "sampled" | "spanId" | "traceId">): string =>
  `00-${traceId}-${spanId}-${sampled ? "01" : "00"}`

const parse = (text: string): Option.Option<Tracer.ExternalSpan> => {
  const [, traceId, spanId, flags = ""] = pattern.exec(text) ?? []
  if (traceId === undefined || spanId === undefined || /^0+$/.test(traceId) || /^0+$/.test(spanId)) return Option.none()
  return Option.some(Tracer.externalSpan({ traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 }))
}

/** The trace context of the enqueue, from the job's meta. */
export const ofMeta = (meta: unknown): Option.Option<Tracer.ExternalSpan> =>
  Predicate.hasProperty(meta, key) && typeof meta[key] === "string" ? parse(meta[key]) : Option.none()

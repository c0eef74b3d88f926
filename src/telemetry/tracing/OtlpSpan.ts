import { randomBytes } from "node:crypto"
import { Cause, Context, type Exit, Option, Predicate, type Tracer } from "effect"
import * as Outcome from "../../core/Outcome.js"
import { IsRoot } from "./ExecutionTrace.js"

// A span and its OTLP JSON encoding. Log messages and error texts of handlers are not exported, because they may
// contain payload data.

const kinds = { internal: 1, server: 2, client: 3, producer: 4, consumer: 5 } as const

const maxCharacters = 1_024

type Value =
  | { readonly stringValue: string }
  | { readonly boolValue: boolean }
  | { readonly doubleValue: number }
  | {
      readonly intValue: string
    }

export interface Attribute {
  readonly key: string
  readonly value: Value
}

const anyValue = (value: unknown): Value => {
  if (typeof value === "boolean") return { boolValue: value }
  if (typeof value === "bigint" || Number.isSafeInteger(value)) return { intValue: String(value) }
  if (typeof value === "number") return { doubleValue: value }
  return { stringValue: String(value).slice(0, maxCharacters) }
}

export const attributesOf = (entries: Iterable<readonly [string, unknown]>): ReadonlyArray<Attribute> =>
  Array.from(entries, ([key, value]) => ({ key, value: anyValue(value) }))

/** Returns the error's type, without its message. */
const errorType = (cause: Cause.Cause<unknown>): string | undefined => {
  const thrown = Option.orElse(Cause.failureOption(cause), () => Cause.dieOption(cause))
  if (Option.isNone(thrown)) return "interrupted"
  const error = thrown.value
  // A throttled or snoozed job has not failed.
  if (Outcome.isOutcome(error)) return error._tag === "Retry" || error._tag === "Dead" ? error._tag : undefined
  if (Predicate.hasProperty(error, "_tag") && typeof error._tag === "string") return error._tag
  return error instanceof Error ? error.name : typeof error
}

const randomHex = (bytes: number) => randomBytes(bytes).toString("hex")

/** The nearest span that the collector knows: one of ours, or an external one. */
export const nearest = (span: Option.Option<Tracer.AnySpan>): Option.Option<Tracer.AnySpan> =>
  Option.flatMap(span, (found) =>
    found._tag === "ExternalSpan" || found instanceof OtlpSpan ? Option.some(found) : nearest(found.parent)
  )

/** A span that is exported when it ends, unless its trace is not sampled. */
export class OtlpSpan implements Tracer.Span {
  readonly _tag = "Span"
  readonly traceId: string
  readonly spanId: string
  readonly parent: Option.Option<Tracer.AnySpan>
  readonly sampled: boolean
  readonly attributes = new Map<string, unknown>()
  readonly links: Array<Tracer.SpanLink>
  status: Tracer.SpanStatus

  constructor(
    readonly name: string,
    parent: Option.Option<Tracer.AnySpan>,
    readonly context: Context.Context<never>,
    links: ReadonlyArray<Tracer.SpanLink>,
    startTime: bigint,
    readonly kind: Tracer.SpanKind,
    private readonly onEnd: (span: OtlpSpan) => void
  ) {
    const found = nearest(parent)
    const isRoot = Context.get(context as Context.Context<IsRoot>, IsRoot)
    this.parent = isRoot ? Option.none() : found
    this.traceId = Option.match(found, { onNone: () => randomHex(16), onSome: ({ traceId }) => traceId })
    this.spanId = isRoot && Option.isSome(found) ? found.value.spanId : randomHex(8)
    this.sampled = Option.match(found, { onNone: () => true, onSome: ({ sampled }) => sampled })
    this.links = [...links]
    this.status = { _tag: "Started", startTime }
  }

  end(endTime: bigint, exit: Exit.Exit<unknown, unknown>): void {
    this.status = { _tag: "Ended", startTime: this.status.startTime, endTime, exit }
    const error = exit._tag === "Failure" ? errorType(exit.cause) : undefined
    if (error !== undefined) this.attributes.set("error.type", error)
    if (this.sampled) this.onEnd(this)
  }

  attribute(key: string, value: unknown): void {
    this.attributes.set(key, value)
  }

  event(): void {}

  addLinks(links: ReadonlyArray<Tracer.SpanLink>): void {
    this.links.push(...links)
  }
}

export const toJson = (span: OtlpSpan) => {
  const { status } = span
  const error = span.attributes.get("error.type")
  return {
    traceId: span.traceId,
    spanId: span.spanId,
    ...Option.match(span.parent, { onNone: () => ({}), onSome: ({ spanId }) => ({ parentSpanId: spanId }) }),
    name: span.name.slice(0, maxCharacters),
    kind: kinds[span.kind],
    startTimeUnixNano: String(status.startTime),
    endTimeUnixNano: String(status._tag === "Ended" ? status.endTime : status.startTime),
    attributes: attributesOf(span.attributes),
    links: span.links.map(({ attributes, span: { spanId, traceId } }) => ({
      traceId,
      spanId,
      attributes: attributesOf(Object.entries(attributes))
    })),
    status: error === undefined ? {} : { code: 2, message: String(error) }
  }
}

import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Logger, Option, Redacted, Schema, Tracer } from "effect"
import * as Setting from "../../src/core/Setting.js"
import { Handler, Job } from "../../src/index.js"
import * as SendSpan from "../../src/queue/enqueue/SendSpan.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import * as TraceParent from "../../src/telemetry/tracing/TraceParent.js"
import { Tracing } from "../../src/telemetry/tracing/Tracing.js"
import { collectorOf, settings } from "../../src/telemetry/tracing/TracingConfig.js"
import { TestShift } from "../../src/testing/TestShift.js"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"
import * as Collector from "./Collector.js"

const theirTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
const theirSpan = "00f067aa0ba902b7"

/** Enqueues jobs through the API, with the caller's trace headers. */
const enqueue = (url: string, jobs: ReadonlyArray<Record<string, unknown>>, headers: Record<string, string> = {}) =>
  Effect.promise(async () => {
    const response = await fetch(`${url}/api/v1/jobs`, {
      method: "POST",
      headers: { authorization: "Bearer admin-sesame", "content-type": "application/json", ...headers },
      body: JSON.stringify({ jobs: jobs.map((job) => ({ kind: "noop_echo", ...job })) })
    })
    const answer = (await response.json()) as { readonly jobs: ReadonlyArray<{ readonly id: string }> }
    return answer.jobs.map(({ id }) => id)
  })

describe("a service with a collector", () => {
  it.scopedLive("exports a span for every job sent and processed, linked, without their contents", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const collector = yield* Collector.make
      const running = yield* Nightshift.start(["serve", "--port", "0"], {
        cwd,
        env: {
          NIGHTSHIFT_ADMIN_TOKEN: "admin-sesame",
          DATABASE_URL: Redacted.value(yield* TestDatabase.migrated),
          OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`,
          OTEL_EXPORTER_OTLP_HEADERS: "x-collector-key=open%20sesame",
          OTEL_SERVICE_NAME: "shop"
        }
      })
      const url = (yield* running.said(/"url":"(http:[^"]+)"/))[1] ?? ""
      const [id = ""] = yield* enqueue(url, [{ payload: { message: "hunter2" } }], {
        traceparent: `00-${theirTrace}-${theirSpan}-01`
      })
      const of = (name: string, job: string) =>
        collector.spans().find((span) => span.name === name && span.about["messaging.message.id"] === job)
      yield* collector.until((spans) => spans.length >= 2)
      const send = of("send default", id)
      const process = of("process default", id)
      expect(send).toMatchObject({ traceId: theirTrace, parentSpanId: theirSpan, kind: 4, links: [], status: {} })
      expect(send?.about).toEqual({
        "messaging.system": "nightshift",
        "messaging.destination.name": "default",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.message.id": id,
        "nightshift.job.kind": "noop_echo"
      })
      expect(process).toMatchObject({ traceId: theirTrace, parentSpanId: send?.spanId, kind: 5, status: {} })
      expect(process?.links).toEqual([{ traceId: theirTrace, spanId: send?.spanId, attributes: [] }])
      expect(process?.about).toEqual({
        "messaging.system": "nightshift",
        "messaging.destination.name": "default",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": id,
        "nightshift.job.kind": "noop_echo",
        "nightshift.job.attempt": "1",
        "nightshift.job.outcome": "done"
      })
      expect(BigInt(process?.startTimeUnixNano ?? 0)).toBeLessThanOrEqual(BigInt(process?.endTimeUnixNano ?? 0))

      const shown = yield* Effect.promise(async () => {
        const response = await fetch(`${url}/api/v1/jobs/${id}`, { headers: { authorization: "Bearer admin-sesame" } })
        return (await response.json()) as unknown
      })
      expect(shown).toMatchObject({ meta: { traceparent: `00-${theirTrace}-${send?.spanId}-01` } })

      const both = yield* enqueue(url, [{ payload: { fail: "hunter2" }, attempts: 1 }, { payload: {} }])
      yield* collector.until(() => both.every((id) => of("process default", id) !== undefined))
      yield* running.signal("SIGTERM")
      const { code, stderr } = yield* running.finished
      expect(code).toBe(0)
      const batch = collector.spans().find(({ about }) => about["messaging.batch.message_count"] === "2")
      const failed = of("process default", both[0] ?? "")
      expect(failed).toMatchObject({ traceId: batch?.traceId, status: { code: 2, message: "Retry" } })
      expect(failed?.about).toMatchObject({ "error.type": "Retry", "nightshift.job.outcome": "retry" })
      expect(collector.resource()).toMatchObject({ "service.name": "shop", "telemetry.sdk.name": "nightshift" })
      expect(collector.headers().every((headers) => headers["x-collector-key"] === "open sesame")).toBe(true)
      expect(collector.text()).not.toMatch(/hunter2|sesame/)
      expect(stderr).not.toContain("open")
    })
  )
})

const layerOf = (env: Record<string, string>) =>
  QueueMemory.layer.pipe(
    Layer.provide(Wakeups.layer),
    Layer.provideMerge(Tracing.layer("0.0.0")),
    Layer.provide(Layer.setConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(env)))))
  )

const job = { kind: "greet", version: 1, queue: "mail", payload: {}, attempts: 5 }

describe("tracing", () => {
  it.scopedLive("costs nothing and leaves no trace in jobs unless enabled", () =>
    Effect.gen(function* () {
      const given = () => Effect.succeed([])
      expect(SendSpan.around(undefined, given)).toBe(given)
      for (const env of [{}, { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9", OTEL_SDK_DISABLED: "true" }]) {
        yield* Effect.gen(function* () {
          expect(yield* Tracing).toBeUndefined()
          const [stored] = yield* Effect.flatMap(Queue, (queue) => queue.enqueue([job]))
          expect((yield* Effect.flatMap(JobSearch, ({ get }) => get(stored?.id as never))).meta).toBeUndefined()
        }).pipe(Effect.provide(layerOf(env)))
      }
    })
  )

  it.scopedLive("logs once that a collector refuses its spans, and once that it accepts them again", () =>
    Effect.gen(function* () {
      const lines: Array<string> = []
      const listening = Logger.replace(
        Logger.defaultLogger,
        Logger.make(({ message }) => void lines.push(String(message)))
      )
      const collector = yield* Collector.make
      collector.answer(400)
      yield* Effect.gen(function* () {
        const queue = yield* Queue
        const metaOf = (meta: Record<string, unknown>) =>
          Effect.flatMap(queue.enqueue([{ ...job, meta }]), ([stored]) =>
            Effect.flatMap(JobSearch, ({ get }) => Effect.map(get(stored?.id as never), (found) => found.meta))
          )
        expect(yield* metaOf({ tag: "a" })).toEqual({
          tag: "a",
          traceparent: expect.stringMatching(/^00-\w{32}-\w{16}-01$/)
        })
        expect(yield* metaOf({ traceparent: "mine" })).toEqual({ traceparent: "mine" })
        const wide = { text: "x".repeat(64 * 1024 - 20) }
        expect(yield* metaOf(wide)).toEqual(wide)
        yield* collector.until(() => collector.headers().length > 0)
        collector.answer(200)
        yield* queue.enqueue([job])
      }).pipe(Effect.provide(layerOf({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url })), Effect.provide(listening))
      // Pending spans were exported before shutdown.
      expect(collector.spans()).toHaveLength(1)
      expect(lines).toEqual([
        `cannot send traces to ${collector.url}, dropping them: status 400`,
        expect.stringMatching(/^sending traces again; \d spans were lost$/)
      ])
    })
  )

  it.scopedLive("uses the tracer of the surrounding program when no collector is set", () =>
    Effect.gen(function* () {
      const spans: Array<string> = []
      const own = Tracer.make({
        span: (name, parent, context, links, startTime, kind) => ({
          _tag: "Span",
          name,
          parent,
          context,
          links,
          kind,
          spanId: "a".repeat(16),
          traceId: "b".repeat(32),
          sampled: true,
          status: { _tag: "Started", startTime },
          attributes: new Map(),
          end: () => void spans.push(name),
          attribute: () => {},
          event: () => {},
          addLinks: () => {}
        }),
        context: (run) => run()
      })
      yield* Effect.flatMap(Queue, (queue) => queue.enqueue([job, { ...job, queue: "push" }])).pipe(
        Effect.provide(layerOf({})),
        Effect.withTracer(own)
      )
      expect(spans.filter((name) => name.startsWith("send"))).toEqual(["send mail", "send push"])
    })
  )

  it("parses trace contexts, and nothing else", () => {
    const meta = { traceparent: `00-${theirTrace}-${theirSpan}-00` }
    expect(Option.getOrThrow(TraceParent.ofMeta(meta))).toMatchObject({
      traceId: theirTrace,
      spanId: theirSpan,
      sampled: false
    })
    const odd = [
      null,
      "x",
      { traceparent: 7 },
      { traceparent: "" },
      { traceparent: `00-${"0".repeat(32)}-${theirSpan}-01` }
    ]
    expect(odd.map((each) => Option.isNone(TraceParent.ofMeta(each)))).toEqual(odd.map(() => true))
  })

  it.effect.each([
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318"],
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "http://u:hunter2@h:4318"],
    ["OTEL_EXPORTER_OTLP_HEADERS", "no header"],
    ["OTEL_EXPORTER_OTLP_HEADERS", "a=%zz"]
  ] as const)("refuses %s=%s", ([key, value]) =>
    Effect.gen(function* () {
      const read = Effect.withConfigProvider(
        Effect.flatten(Effect.succeed(Setting.group(settings))),
        ConfigProvider.fromMap(new Map([[key, value]]))
      )
      const error = yield* Effect.flip(read)
      expect(Setting.problems(error)).toEqual([expect.stringContaining(`${key}: expected `)])
    })
  )

  it("is off when disabled", () => {
    const given = {
      endpoint: Option.some("http://h:4318//"),
      headers: Option.none(),
      serviceName: "s",
      disabled: false
    }
    expect(collectorOf(given)).toEqual({ url: "http://h:4318/v1/traces", headers: {}, serviceName: "s" })
    expect(collectorOf({ ...given, disabled: true })).toBeUndefined()
    expect(collectorOf({ ...given, endpoint: Option.none() })).toBeUndefined()
  })
})

const Chatty = Job.make("chatty", { payload: Schema.Struct({}), queue: "talk" })

describe("a line that a handler logs", () => {
  it.effect("carries the job's id, kind, queue and attempt for any logger of Effect", () => {
    const lines: Array<unknown> = []
    const listening = Logger.replace(
      Logger.defaultLogger,
      Logger.map(Logger.jsonLogger, (line) => void lines.push(JSON.parse(line).annotations))
    )
    const handlers = [Handler.make(Chatty, () => Effect.logWarning("hello"))]
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const { id: first } = yield* Chatty.enqueue({})
      yield* shift.settle
      const { id: second } = yield* Chatty.enqueue({})
      yield* shift.settle
      const about = (id: string) => ({
        "nightshift.job": { id, kind: "chatty", queue: "talk", attempt: 1 },
        "nightshift.process": expect.any(String)
      })
      expect(lines).toEqual([about(first), about(second)])
    }).pipe(Effect.provide(TestShift.layer({ handlers })), Effect.provide(listening))
  })
})

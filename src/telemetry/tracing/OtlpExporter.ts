import { hostname } from "node:os"
import { Data, Effect, Exit, Schedule, type Scope } from "effect"
import * as Batcher from "../../core/Batcher.js"
import { attributesOf, type OtlpSpan, toJson } from "./OtlpSpan.js"
import type { Collector } from "./TracingConfig.js"

class NotAccepted extends Data.TaggedError("NotAccepted")<{ readonly reason: string; readonly passing: boolean }> {}

/** Maximum number of queued spans; more are dropped, so that an unavailable collector does not exhaust memory. */
const maxQueuedSpans = 10_000
const maxSpansPerRequest = 500

/** Minimum interval between two requests in milliseconds: a busy process must not send one per job. */
const pause = 250

const retries = Schedule.intersect(Schedule.exponential("200 millis"), Schedule.recurs(3))

/** Request timeout, and time to flush at shutdown, in milliseconds. */
const requestTimeout = 2_000
const flushTimeout = 3_000

/** Sends spans to a collector until the Scope closes, then flushes the rest. Never blocks or fails the caller. */
export const make = (
  { headers, serviceName, url }: Collector,
  version: string
): Effect.Effect<(span: OtlpSpan) => void, never, Scope.Scope> =>
  Effect.gen(function* () {
    const resource = {
      attributes: attributesOf([
        ["service.name", serviceName],
        ["service.version", version],
        ["host.name", hostname()],
        ["process.pid", process.pid],
        ["telemetry.sdk.name", "nightshift"],
        ["telemetry.sdk.language", "nodejs"]
      ])
    }
    const scope = { name: "nightshift", version }
    const clock = yield* Effect.clock
    let flushDeadline = Number.POSITIVE_INFINITY
    let lost = 0
    let isFailing = false

    const post = (spans: ReadonlyArray<OtlpSpan>) =>
      Effect.tryPromise({
        try: async () => {
          const response = await fetch(url, {
            method: "POST",
            headers: { ...headers, "content-type": "application/json" },
            body: JSON.stringify({ resourceSpans: [{ resource, scopeSpans: [{ scope, spans: spans.map(toJson) }] }] }),
            redirect: "manual",
            // A real-time timeout: while the Scope closes, nothing else interrupts the request.
            signal: AbortSignal.timeout(requestTimeout)
          })
          await response.body?.cancel()
          return response.status
        },
        catch: (error) => {
          const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
          return new NotAccepted({ reason: cause instanceof Error ? cause.message : String(cause), passing: true })
        }
      }).pipe(
        Effect.filterOrFail(
          (status) => status >= 200 && status < 300,
          (status) => new NotAccepted({ reason: `status ${status}`, passing: status === 429 || status >= 500 })
        ),
        Effect.retry({
          schedule: retries,
          while: ({ passing }) => passing && clock.unsafeCurrentTimeMillis() < flushDeadline
        })
      )

    /** Drops spans that are still queued when the shutdown time is over. */
    const beforeDeadline = (spans: ReadonlyArray<OtlpSpan>) =>
      Effect.suspend(() =>
        clock.unsafeCurrentTimeMillis() < flushDeadline
          ? post(spans)
          : new NotAccepted({ reason: "the process is shutting down", passing: false })
      )

    /** Logs once when delivery starts to fail, and once when it recovers. */
    const deliver = (spans: ReadonlyArray<OtlpSpan>) =>
      Effect.matchEffect(beforeDeadline(spans), {
        onFailure: ({ reason }) => {
          lost += spans.length
          if (isFailing) return Effect.void
          isFailing = true
          return Effect.logWarning(`cannot send traces to ${new URL(url).origin}, dropping them: ${reason}`)
        },
        onSuccess: () => {
          if (!isFailing) return Effect.void
          isFailing = false
          const missing = lost
          lost = 0
          return Effect.logInfo(`sending traces again; ${missing} spans were lost`)
        }
      })

    let last = Number.NEGATIVE_INFINITY
    const afterPause = Effect.suspend(() => {
      const wait = last + pause - clock.unsafeCurrentTimeMillis()
      return wait > 0 && flushDeadline === Number.POSITIVE_INFINITY ? Effect.sleep(wait) : Effect.void
    })

    const batcher = yield* Batcher.make<OtlpSpan, void, never, never>({
      maxWeight: maxSpansPerRequest,
      capacity: maxQueuedSpans,
      isolate: () => false,
      flush: (spans) =>
        Effect.gen(function* () {
          yield* afterPause
          yield* deliver(spans)
          last = clock.unsafeCurrentTimeMillis()
          return spans.map(() => Exit.void)
        })
    })
    // Runs before the batcher's last flush.
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        flushDeadline = clock.unsafeCurrentTimeMillis() + flushTimeout
      })
    )
    return (span) => {
      if (!batcher.offer(span)) lost += 1
    }
  })

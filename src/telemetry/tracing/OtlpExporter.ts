import { hostname } from "node:os"
import { Data, Effect, Exit, Schedule, type Scope } from "effect"
import * as Batcher from "../../core/Batcher.js"
import { attributesOf, type OtlpSpan, toJson } from "./OtlpSpan.js"
import type { Collector } from "./TracingConfig.js"

/** The collector did not accept a request. */
class NotTaken extends Data.TaggedError("NotTaken")<{ readonly reason: string; readonly passing: boolean }> {}

/** Maximum number of queued spans; more are dropped, so that an unavailable collector does not exhaust memory. */
const mostWaiting = 10_000
const mostAtOnce = 500

/** Minimum interval between two requests in milliseconds, so that a busy process does not send one per job. */
const pause = 250

const again = Schedule.intersect(Schedule.exponential("200 millis"), Schedule.recurs(3))

/** Request timeout, and time to flush at shutdown, in milliseconds. */
const patience = 2_000
const lastWords = 3_000

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
    let giveUpAt = Number.POSITIVE_INFINITY
    let lost = 0
    let silent = false

    const post = (spans: ReadonlyArray<OtlpSpan>) =>
      Effect.tryPromise({
        try: async () => {
          const response = await fetch(url, {
            method: "POST",
            headers: { ...headers, "content-type": "application/json" },
            body: JSON.stringify({ resourceSpans: [{ resource, scopeSpans: [{ scope, spans: spans.map(toJson) }] }] }),
            redirect: "manual",
            // A real-time timeout: while the Scope closes, nothing else interrupts the request.
            signal: AbortSignal.timeout(patience)
          })
          await response.body?.cancel()
          return response.status
        },
        catch: (error) => {
          const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
          return new NotTaken({ reason: cause instanceof Error ? cause.message : String(cause), passing: true })
        }
      }).pipe(
        Effect.filterOrFail(
          (status) => status >= 200 && status < 300,
          (status) => new NotTaken({ reason: `status ${status}`, passing: status === 429 || status >= 500 })
        ),
        Effect.retry({
          schedule: again,
          while: ({ passing }) => passing && clock.unsafeCurrentTimeMillis() < giveUpAt
        })
      )

    /** Drops spans that are still queued when the shutdown time is over. */
    const inTime = (spans: ReadonlyArray<OtlpSpan>) =>
      Effect.suspend(() =>
        clock.unsafeCurrentTimeMillis() < giveUpAt
          ? post(spans)
          : new NotTaken({ reason: "the process has ended", passing: false })
      )

    /** Logs once when delivery starts to fail, and once when it recovers. */
    const told = (spans: ReadonlyArray<OtlpSpan>) =>
      Effect.matchEffect(inTime(spans), {
        onFailure: ({ reason }) => {
          lost += spans.length
          if (silent) return Effect.void
          silent = true
          return Effect.logWarning(`traces do not arrive at ${new URL(url).origin} and are lost: ${reason}`)
        },
        onSuccess: () => {
          if (!silent) return Effect.void
          silent = false
          const missing = lost
          lost = 0
          return Effect.logInfo(`traces arrive again; ${missing} spans were lost`)
        }
      })

    let last = Number.NEGATIVE_INFINITY
    const afterPause = Effect.suspend(() => {
      const wait = last + pause - clock.unsafeCurrentTimeMillis()
      return wait > 0 && giveUpAt === Number.POSITIVE_INFINITY ? Effect.sleep(wait) : Effect.void
    })

    const batcher = yield* Batcher.make<OtlpSpan, void, never, never>({
      maxWeight: mostAtOnce,
      capacity: mostWaiting,
      isolate: () => false,
      flush: (spans) =>
        Effect.gen(function* () {
          yield* afterPause
          yield* told(spans)
          last = clock.unsafeCurrentTimeMillis()
          return spans.map(() => Exit.void)
        })
    })
    // Runs before the batcher's last flush.
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        giveUpAt = clock.unsafeCurrentTimeMillis() + lastWords
      })
    )
    return (span) => {
      if (!batcher.offer(span)) lost += 1
    }
  })

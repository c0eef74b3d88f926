import { hostname } from "node:os"
import { Data, Effect, Exit, Schedule, type Scope } from "effect"
import * as Batcher from "../../core/Batcher.js"
import { attributesOf, type OtlpSpan, toJson } from "./OtlpSpan.js"
import type { Collector } from "./TracingConfig.js"

/** A collector did not take what it was sent. */
class NotTaken extends Data.TaggedError("NotTaken")<{ readonly reason: string; readonly passing: boolean }> {}

/** Beyond so many that wait, spans are lost: a collector that is away must not cost the memory of its process. */
const mostWaiting = 10_000
const mostAtOnce = 500

/** Milliseconds between two requests, so that a busy process does not send one per job. */
const pause = 250

/** A few more tries where trying again may help. */
const again = Schedule.intersect(Schedule.exponential("200 millis"), Schedule.recurs(3))

/** Milliseconds that a collector has to answer, and that a process which must end goes on telling. */
const patience = 2_000
const lastWords = 3_000

/** Sends spans to a collector until the Scope closes, and those that wait then. Nobody waits for it, and nobody fails by it. */
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
            // By the machine's own clock: while a Scope closes nothing else ends it.
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

    /** What waits when the time of a process is over is lost. */
    const inTime = (spans: ReadonlyArray<OtlpSpan>) =>
      Effect.suspend(() =>
        clock.unsafeCurrentTimeMillis() < giveUpAt
          ? post(spans)
          : new NotTaken({ reason: "the process has ended", passing: false })
      )

    /** Said once when it begins, and once when it is over. */
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

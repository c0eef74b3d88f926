import { Effect, Ref, Schedule } from "effect"
import type * as Nightshift from "../support/Nightshift.js"
import { pace } from "./FaultCase.js"

export const token = "sesame"

export interface Answer {
  readonly status: number
  readonly body: string
}

/** A process of `nightshift serve`. */
export interface Pod extends Nightshift.Running {
  readonly base: string
  readonly takesLoad: boolean
  readonly isAlive: () => boolean
  readonly request: (method: string, path: string, body?: unknown) => Effect.Effect<Answer>
  /** Waits until /readyz gives this status with a matching body, and returns it for the operator's column. */
  readonly untilReadyz: (status: number, body?: RegExp) => Effect.Effect<string, Error>
  /** Waits for a log line, and returns it for the operator's column. */
  readonly logged: (pattern: RegExp) => Effect.Effect<string, Error>
}

/** How long cases wait for what must happen anyway. Recovery has its own, shorter limit. */
const waitSeconds = 120 * pace

/** Polls until the condition holds; fails after the limit with what was found last. */
export const until = <A, E, R>(
  what: string,
  look: Effect.Effect<A, E, R>,
  isSo: (found: A) => boolean,
  limitSeconds = waitSeconds
): Effect.Effect<A, Error, R> =>
  Effect.gen(function* () {
    const last = yield* Ref.make<unknown>(undefined)
    const polled = Effect.either(look).pipe(
      Effect.tap((found) => Ref.set(last, found)),
      Effect.repeat({
        until: (found) => found._tag === "Right" && isSo(found.right),
        schedule: Schedule.spaced("100 millis")
      }),
      Effect.zipRight(Ref.get(last))
    )
    yield* Effect.timeoutOption(polled, `${limitSeconds} seconds`)
    const found = (yield* Ref.get(last)) as { _tag: string; right: A } | undefined
    if (found?._tag === "Right" && isSo(found.right)) return found.right
    return yield* Effect.fail(new Error(`${what}: not within ${limitSeconds} s; last found ${JSON.stringify(found)}`))
  })

/** A caller gives up on a pod that may be frozen after this long, and tries another one. */
const enqueuePatience = 4_000 * pace
/** On a busy machine a pod may take long to answer. */
const patience = 20_000 * pace

/** A process that serves at this address. */
export const watch = (running: Nightshift.Running, base: string, takesLoad: boolean, isAlive: () => boolean): Pod => {
  const request = (method: string, path: string, body?: unknown) =>
    Effect.promise(async (): Promise<Answer> => {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" }
      try {
        const response = await fetch(`${base}${path}`, {
          method,
          headers,
          signal: AbortSignal.timeout(method === "POST" ? enqueuePatience : patience),
          ...(body === undefined ? {} : { body: JSON.stringify(body) })
        })
        return { status: response.status, body: await response.text() }
      } catch (error) {
        return { status: 0, body: String(error) }
      }
    })
  const oneLine = (text: string) => text.replace(/\s+/g, " ").trim()
  return {
    ...running,
    base,
    takesLoad,
    isAlive,
    request,
    untilReadyz: (status, body = /.*/s) =>
      Effect.map(
        until(
          `/readyz ${status}`,
          request("GET", "/readyz"),
          (answer) => answer.status === status && body.test(answer.body)
        ),
        (answer) => {
          const reasons =
            status === 0 ? "no answer" : (JSON.parse(answer.body) as { reasons: Array<string> }).reasons.join("; ")
          return `/readyz ${status}${reasons === "" ? "" : `: ${reasons}`}`
        }
      ),
    logged: (pattern) =>
      running.said(pattern).pipe(
        Effect.timeoutFail({
          duration: `${waitSeconds} seconds`,
          onTimeout: () => new Error(`no log line matched ${pattern}`)
        }),
        Effect.mapBoth({
          onSuccess: ([text]) => `log: ${oneLine(text).slice(0, 160)}`,
          onFailure: (error) => (error instanceof Error ? error : new Error(String(error)))
        })
      )
  }
}

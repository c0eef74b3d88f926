import { Clock, Duration, Effect, Redacted } from "effect"
import * as HttpUrl from "../../core/HttpUrl.js"
import * as JsonNumbers from "../../core/JsonNumbers.js"
import * as Outcome from "../../core/Outcome.js"
import * as SigningKey from "../../core/SigningKey.js"
import { limits } from "../../core/StoredJob.js"
import * as Handler from "../../handlers/Handler.js"
import type { JobContext } from "../../handlers/JobContext.js"
import type { JobKind } from "../../queue/Job.js"
import type { Response } from "../fetch/HttpExchange.js"
import type * as SafeFetch from "../fetch/SafeFetch.js"
import { keyOf, signed } from "../SignedSources.js"
import { client, failureOf, quoted, waitIn } from "./Exchange.js"

// Runs the jobs of a kind at a URL: each attempt is one signed request, in the form of Standard Webhooks.

/** Where the jobs of a kind are sent. */
export interface PushOptions {
  /** An http or https URL without credentials. Private addresses must be listed in HTTP_HANDLER_ALLOW. */
  readonly url: string | URL
  /** Signing secret: `whsec_` and 24 to 64 bytes in base64. Several while they are rotated: each signs the request. */
  readonly secret: Redacted.Redacted | ReadonlyArray<Redacted.Redacted>
  /** What pauses if the endpoint responds 429 or 503 with Retry-After: the queue, the jobs of the key, or the job. [`queue`] */
  readonly throttles?: "queue" | "key" | "job" | undefined
}

const scopes = ["queue", "key", "job"] as const
type Scope = (typeof scopes)[number]

/** Signatures that receivers check at most, among them `nightshift/serverless`. */
const maxSecrets = 16

const secretsOf = ({ secret }: PushOptions): ReadonlyArray<string> =>
  (Redacted.isRedacted(secret) ? [secret] : secret).map(Redacted.value)

/** Returns the invalid option and what is wrong with it, or undefined. Never includes a secret. */
export const fault = (options: PushOptions): readonly [option: keyof PushOptions, message: string] | undefined => {
  if (HttpUrl.plain(String(options.url)) === undefined)
    return ["url", "url must be an http or https URL without credentials."]
  const secrets = secretsOf(options)
  if (secrets.length === 0 || secrets.length > maxSecrets)
    return ["secret", `secret must have 1 to ${maxSecrets} secrets, got ${secrets.length}.`]
  if (secrets.some((secret) => keyOf("standard", secret) === undefined)) return ["secret", `secret ${SigningKey.rule}.`]
  if (options.throttles !== undefined && !scopes.includes(options.throttles))
    return ["throttles", `throttles must be queue, key or job, got ${JSON.stringify(options.throttles)}.`]
  return undefined
}

/** How the attempt of a job ended, as the endpoint says in the header `nightshift-outcome`. */
const statedOutcome = (response: Response, scope: Scope, now: number): Outcome.Outcome | undefined => {
  const { "nightshift-outcome": stated, "nightshift-scope": statedScope } = response.headers
  const wait = waitIn(response, now, Number.POSITIVE_INFINITY)
  const error = quoted(response) || `the endpoint ended the attempt as ${String(stated)}, without a reason`
  switch (stated) {
    case "retry":
      return Outcome.retry(error, wait)
    case "dead":
      return Outcome.dead(error)
    case "snooze":
      return Outcome.snooze(wait ?? Duration.zero)
    case "throttled":
      return Outcome.throttled({
        scope: scopes.find((known) => known === statedScope) ?? scope,
        ...(wait === undefined ? {} : { after: wait })
      })
    case "cancelled":
      return Outcome.cancelled
    default:
      return undefined
  }
}

/** A JSON body is the result. It is judged like the result of a handler: one that cannot be stored is not retried. */
const resultOf = (host: string, { body, headers, isCut, status }: Response): Outcome.Outcome => {
  const isJson = /^application\/(?:[\w.+-]+\+)?json\b/i.test(headers["content-type"] ?? "")
  if (!isJson || body.length === 0) return Outcome.done()
  const responded = `${host} responded ${status} with a result`
  if (isCut) return Outcome.dead(`${responded} of more than ${limits.resultBytes} bytes.`)
  try {
    const text = body.toString("utf8")
    const result: unknown = JSON.parse(text)
    const lost = [...JsonNumbers.allLostIn(text)].find((number) => !JsonNumbers.isMinor(number))
    if (lost === undefined) return Outcome.done(result)
    return Outcome.dead(
      `${host} responded ${status}: ${JsonNumbers.fieldOf(["result", ...lost.path])} ${JsonNumbers.reasonOf(lost)}.`
    )
  } catch {
    return Outcome.dead(`${responded} that is not JSON, although its content type says so.`)
  }
}

/** What a response means for the job. */
const outcomeOf = (host: string, response: Response, scope: Scope, now: number): Outcome.Outcome => {
  const { status } = response
  const stated = statedOutcome(response, scope, now)
  if (stated !== undefined) return stated
  if (status >= 200 && status < 300) return resultOf(host, response)
  const wait = waitIn(response, now)
  if (wait !== undefined && (status === 429 || status === 503)) return Outcome.throttled({ after: wait, scope })
  return Outcome.retry(failureOf(host, response, quoted(response)), wait)
}

/** The signed body. It has the fields that Standard Webhooks recommends, and the job. */
const bodyOf = (kind: JobKind<never>, payload: unknown, job: JobContext, now: number): string =>
  JSON.stringify({
    type: job.kind,
    timestamp: new Date(now).toISOString(),
    data: payload,
    job: {
      id: job.id,
      queue: job.queue,
      key: job.key ?? null,
      attempt: job.attempt,
      attempts: job.attempts,
      meta: job.meta ?? null,
      version: kind.version,
      timeoutSeconds: Duration.toSeconds(kind.timeout)
    }
  })

/**
 * Makes a handler that sends each job to a URL, signed as Standard Webhooks requires. The payload is sent as it is stored. A
 * 2xx response ends the job, and a JSON body is its result. Throws a RangeError if an option is invalid.
 *
 * @example
 * ```ts
 * import { Config, Effect, Schema } from "effect"
 * import { Job, Push } from "nightshift"
 *
 * const Resize = Job.make("resize", { payload: Schema.Struct({ file: Schema.String }), queue: "images", timeout: "30s" })
 * export const ResizeHandler = Effect.map(Config.redacted("PUSH_SECRET"), (secret) =>
 *   Push.make(Resize, { url: "https://functions.example.org/jobs", secret })
 * )
 * ```
 */
export const make = <A>(kind: JobKind<A>, options: PushOptions): Handler.Handler<never> => {
  const [, message] = fault(options) ?? []
  if (message !== undefined) throw new RangeError(message)
  const url = new URL(String(options.url))
  const keys = secretsOf(options).flatMap((secret) => keyOf("standard", secret) ?? [])
  const scope = options.throttles ?? "queue"
  const given = kind as unknown as JobKind<never>

  const run = (fetch: typeof SafeFetch.SafeFetch.Service) => (payload: unknown, job: JobContext) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const json = bodyOf(given, payload, job, now)
      const headers = signed(keys, job.id, json, now)
      const response = yield* fetch.post({ url, json, headers, redirects: undefined, cutAt: limits.resultBytes })
      return outcomeOf(url.host, response, scope, yield* Clock.currentTimeMillis)
    })

  // Opening cannot fail, so an invalid setting aborts the start of the process.
  const opened = Effect.map(Effect.orDie(client), run)
  return { ...Handler.scoped(given as unknown as JobKind<unknown>, opened), keepsStored: true }
}

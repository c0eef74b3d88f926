import { Clock, Duration, Effect, Either, Option, Random, Redacted } from "effect"
import { Audit } from "../../access/Audit.js"
import { millisOf } from "../../core/Ids.js"
import * as Outcome from "../../core/Outcome.js"
import * as SigningKey from "../../core/SigningKey.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import * as Handler from "../../handlers/Handler.js"
import type { JobContext } from "../../handlers/JobContext.js"
import type { Endpoint, Failure } from "../../queue/endpoints/Endpoint.js"
import { Endpoints } from "../../queue/endpoints/Endpoints.js"
import { kind } from "../../queue/endpoints/Send.js"
import { Transactions } from "../../queue/Transactions.js"
import * as Masking from "../../telemetry/Masking.js"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { settings } from "../config/GatewayConfig.js"
import type { Response } from "../fetch/HttpExchange.js"
import type { SafeFetch } from "../fetch/SafeFetch.js"
import { signed } from "../SignedSources.js"
import * as Exchange from "./Exchange.js"

// Sends webhooks to customers. Each attempt reads the endpoint, so that a new URL, a new secret and disabling apply at once.

export { kind, type SendError, type SendOptions, type SendTo, type Sent, send } from "../../queue/endpoints/Send.js"

const disabledEndpoints = MetricSpec.counter(
  "endpoints_disabled_total",
  "Endpoints of customers that were disabled automatically.",
  ["reason"]
)

/** How long an endpoint may take. Customers respond first and work later. */
const patience = Duration.seconds(15)

/** Bytes of a response that are read: more than a result or an error shows. */
const readBytes = 4 * 1024

/** The signed body. It is the same in every attempt, and has the fields that Standard Webhooks recommends. */
const bodyOf = ({ data, type }: { readonly type: string; readonly data: unknown }, { id }: JobContext): string =>
  JSON.stringify({ type, timestamp: new Date(millisOf(id)).toISOString(), data })

const isSuccess = ({ status }: Response) => status >= 200 && status < 300

const reasons = {
  operator: "an operator disabled it",
  failing: "its attempts had failed for days",
  gone: "it responded 410 Gone"
}

const disabledText = ({ disabledAt = 0, disabledBecause = "operator", id }: Endpoint) =>
  `Endpoint ${id} was disabled at ${new Date(disabledAt).toISOString()}: ${reasons[disabledBecause]}. Enable it, then resend.`

/**
 * Records a failed attempt. If that disables the endpoint, stores an audit entry in the same transaction. Returns whether the
 * endpoint still has the URL of the attempt.
 */
const recordFailure = (id: string, failure: Failure) =>
  Effect.gen(function* () {
    const endpoints = yield* Endpoints
    const transactions = yield* Transactions
    const audit = yield* Effect.serviceOption(Audit)
    const { because, isPresent } = yield* transactions.run(
      Effect.gen(function* () {
        const { after, before } = yield* endpoints.failed(id, failure)
        const isPresent = before.url === failure.url
        if (before.disabledAt !== undefined || after.disabledAt === undefined) return { isPresent }
        if (Option.isSome(audit))
          yield* audit.value.record({
            who: "nightshift",
            act: "endpoint.disable",
            target: id,
            reason: after.disabledBecause,
            after: { firstFailedAt: after.firstFailedAt, failures: after.failures, lastError: after.lastError }
          })
        return { isPresent, because: after.disabledBecause }
      })
    )
    if (because === undefined) return isPresent
    yield* Effect.logWarning(`disabled endpoint ${id}: ${reasons[because]}`)
    const metrics = yield* Effect.serviceOption(Metrics)
    if (Option.isSome(metrics)) metrics.value.series(disabledEndpoints, { reason: because }).add(1)
    return isPresent
  }).pipe(Effect.catchTag("EndpointNotFound", () => Effect.succeed(true)))

/** The delay that the endpoint asks for, but no less than the backoff: an outage would use up all attempts in minutes. */
const delayOf = (response: Response, { attempt }: JobContext, now: number) =>
  Effect.map(Random.next, (chance) => {
    const wait = Exchange.waitIn(response, now)
    return wait && kind.backoff && Duration.max(wait, kind.backoff(attempt, chance))
  })

type Payload = { readonly type: string; readonly data: unknown }
type Run = (
  payload: Payload,
  job: JobContext
) => Effect.Effect<Outcome.Outcome, DatabaseError, Endpoints | Transactions>

const run =
  (fetch: typeof SafeFetch.Service, disableAfter: number, maskText: ReturnType<typeof Masking.makeText>): Run =>
  (payload, job) =>
    Effect.gen(function* () {
      const endpoints = yield* Endpoints
      const { endpoint, secrets } = yield* endpoints.open(job.key ?? "")
      if (endpoint.disabledAt !== undefined) return Outcome.dead(disabledText(endpoint))
      const url = new URL(endpoint.url)
      const json = bodyOf(payload, job)
      const startedAt = yield* Clock.currentTimeMillis
      const keys = secrets.flatMap((secret) => SigningKey.keyOf(Redacted.value(secret)) ?? [])
      const request = {
        url,
        json,
        headers: signed(keys, job.id, json, startedAt),
        redirects: undefined,
        cutAt: readBytes,
        timeout: patience
      }
      const response = yield* Effect.either(fetch.post(request))
      // Endpoints may echo the data, and viewers see responses.
      const said = Either.match(response, {
        onLeft: () => "",
        onRight: (got) => Exchange.quoted(got, (text) => maskText(text, payload))
      })
      const now = yield* Clock.currentTimeMillis
      if (response._tag === "Right" && isSuccess(response.right)) {
        if (endpoint.firstFailedAt !== undefined) yield* endpoints.succeeded(endpoint.id, endpoint.url)
        const { status } = response.right
        return Outcome.done({ status, millis: now - startedAt, response: said })
      }
      const error =
        response._tag === "Left" ? response.left.message : Exchange.failureOf(url.host, response.right, said)
      const isGone = response._tag === "Right" && response.right.status === 410
      const isPresent = yield* recordFailure(endpoint.id, { url: endpoint.url, error, isGone, disableAfter })
      if (isGone && isPresent) return Outcome.dead(error)
      return Outcome.retry(error, response._tag === "Right" ? yield* delayOf(response.right, job, now) : undefined)
    }).pipe(
      Effect.catchTag("EndpointNotFound", ({ id }) => Effect.succeed(Outcome.dead(`Endpoint ${id} was deleted.`)))
    )

// An invalid setting aborts the start of the process.
const opened = Effect.orDie(
  Effect.map(
    Effect.all([Exchange.client, settings.endpointDisableAfter.config, Masking.settings.mask.config]),
    ([fetch, disableAfter, mask]) => run(fetch, Duration.toMillis(disableAfter), Masking.makeText(mask))
  )
)

/**
 * Sends webhooks to the endpoints of customers. Add it to the handlers of a process that serves the queue `webhooks`.
 *
 * @example
 * ```ts
 * import { Effect } from "effect"
 * import { Endpoints, Nightshift, Webhook } from "nightshift"
 *
 * export const Live = Nightshift.layer({ handlers: [Webhook.handler], queues: { webhooks: { workers: 20, perKey: 2 } } })
 * export const program = Effect.gen(function* () {
 *   const endpoints = yield* Endpoints
 *   const { secret } = yield* endpoints.create({ url: "https://customer.example.org/hooks", customer: "acme" })
 *   yield* Webhook.send({ customer: "acme", type: "order.paid" }, { order: "A-17" })
 *   return secret
 * })
 * ```
 */
export const handler: Handler.Handler<Endpoints | Transactions> = Handler.scoped(kind, opened)

import { Effect, Schema } from "effect"
import * as Backoff from "../../core/Backoff.js"
import type { SendTo } from "../../core/Endpoint.js"
import { faultOfText, shown } from "../../core/Storable.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import * as Job from "../Job.js"
import type { OuterTransactionFailed } from "../JobErrors.js"
import type { NewJob } from "../NewJob.js"
import { type Enqueued, Queue, type RunStatement } from "../Queue.js"
import { Transactions } from "../Transactions.js"
import { type EndpointNotFound, faultOfCustomer, faultOfType, InvalidEndpoint } from "./Endpoint.js"
import { Endpoints } from "./Endpoints.js"

/** The kind of the jobs that send webhooks. Their key is the endpoint. Its attempts take about two days. */
export const kind: Job.JobKind<{
  /** Such as `order.paid`. Endpoints can choose the types that they get. */
  readonly type: string
  /** A JSON value. */
  readonly data: unknown
}> = Job.make("webhook.send", {
  payload: Schema.Struct({ type: Schema.String, data: Schema.Unknown }),
  queue: "webhooks",
  attempts: 10,
  backoff: Backoff.jittered(Backoff.stepwise("5s", "1m", "5m", "30m", "2h", "5h", "10h", "14h", "20h"), true),
  timeout: "30s"
})

export type { SendTo }

/** How one webhook differs from others. */
export interface SendOptions {
  /** Names the webhook, up to 256 characters: a second one with the same id is not sent to the same endpoint. [none] */
  readonly id?: string | undefined
  /** Whose data the webhook has, such as `customer:42`, for erasure. Only a digest is stored. [that of the job whose handler sends it] */
  readonly subject?: string | undefined
}

/** A webhook that was stored for one endpoint. Its id is that of the job, and the same in every attempt. */
export interface Sent extends Enqueued {
  /** Id of the endpoint. */
  readonly endpoint: string
}

/** Why a webhook is not sent. */
export type SendError = Job.EnqueueError | InvalidEndpoint | EndpointNotFound | OuterTransactionFailed | DatabaseError

/** The limit of `SendOptions.id`. */
const idCharacters = 256

const invalid = (field: string, reason: string) => new InvalidEndpoint({ field, reason })

const checked = ({ customer, endpoint, type }: SendTo, { id }: SendOptions) => {
  const badType = faultOfType(type)
  if (badType !== undefined) return invalid("type", badType)
  if (endpoint !== undefined && customer !== undefined)
    return invalid("endpoint", `must not be combined with customer, got ${shown(endpoint)}`)
  const badId = id === undefined ? undefined : faultOfText(id, idCharacters)
  if (badId !== undefined) return invalid("id", badId)
  const badCustomer = customer === undefined ? undefined : faultOfCustomer(customer)
  return badCustomer === undefined ? Effect.void : invalid("customer", badCustomer)
}

/** Jobs of one statement. */
const most = 1_000

/**
 * Stores one job for each endpoint, all or none: in the caller's transaction if there is one, or in that of `inside`. A disabled
 * endpoint gets a job too, which fails and can be resent.
 */
export const send = (
  to: SendTo,
  data: unknown,
  options: SendOptions = {},
  inside?: RunStatement
): Effect.Effect<ReadonlyArray<Sent>, SendError, Endpoints | Queue | Transactions> =>
  Effect.gen(function* () {
    yield* checked(to, options)
    const endpoints = yield* Endpoints
    const queue = yield* Queue
    const transactions = yield* Transactions
    const { customer, endpoint, type } = to
    const targets =
      endpoint === undefined ? yield* endpoints.targets(customer, type) : [(yield* endpoints.get(endpoint)).id]
    const { id, subject } = options
    const jobs = yield* Effect.forEach(targets, (key) =>
      kind.job(
        { type, data },
        { key, subject, ...(id === undefined ? {} : { dedupe: { key: `${key} ${id}`, scope: "retained" } }) }
      )
    )
    const store = (part: ReadonlyArray<NewJob>) =>
      inside === undefined ? queue.enqueue(part) : queue.enqueueInside(inside, part)
    const parts = Array.from({ length: Math.ceil(jobs.length / most) }, (_, part) =>
      store(jobs.slice(part * most, (part + 1) * most))
    )
    const stored = Effect.map(Effect.all(parts), (each) => each.flat())
    const all = yield* inside === undefined && parts.length > 1 ? transactions.run(stored) : stored
    return all.map((each, place) => ({ ...each, endpoint: targets[place] as string }))
  }).pipe(
    // The caller has passed data, and no job.
    Effect.catchTag("InvalidJob", ({ field, reason }) => invalid(field.replace(/^payload/, "data"), reason))
  )

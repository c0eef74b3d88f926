import { Effect, Schema } from "effect"
import type { DurationInput } from "../core/DurationInput.js"
import type { Endpoint, EndpointPatch, NewEndpoint, SendTo, Standing } from "../core/Endpoint.js"
import { shown } from "../core/Storable.js"
import * as Webhook from "../gateway/push/Webhook.js"
import { usualKeep } from "../http/jobs/EndpointsRoutes.js"
import * as Response from "../http/jobs/EndpointView.js"
import { Standing as standings } from "../queue/endpoints/Endpoint.js"
import { Endpoints } from "../queue/endpoints/Endpoints.js"
import type { Engine, Ports } from "./Engine.js"
import * as Listing from "./Listing.js"
import { checkKnown, durationOf, namesOf, textOf } from "./Options.js"
import * as PlainFields from "./PlainFields.js"
import * as PromiseHandler from "./PromiseHandler.js"
import type { Handler } from "./Recipe.js"
import { InvalidOptionError } from "./ShiftErrors.js"
import { statementsOf, type Transaction } from "./TransactionAdapter.js"

/** An endpoint of a customer. `disabledAt` and `firstFailedAt` are absent while it works. */
export interface EndpointView extends PlainFields.PlainFields<Endpoint> {
  /** Whether it works, its last attempts failed, or nothing is sent to it. */
  readonly standing: Standing
}

/** An endpoint with a new secret, which is returned only once. */
export interface EndpointWithSecretView extends EndpointView {
  /** The signing secret, for the customer. */
  readonly secret: string
}

/** Which endpoints are listed. */
export interface EndpointFilter extends Listing.ListOptions {
  /** Only endpoints of this customer. [all] */
  readonly customer?: string | undefined
  /** Only endpoints that work, that fail or that are disabled. [all] */
  readonly standing?: Standing | undefined
}

/** How a secret is replaced. */
export interface RotateOptions {
  /** How long the previous secrets also sign. [1d] */
  readonly keep?: DurationInput | undefined
  /** The new secret: `whsec_` and 24 to 64 bytes in base64. [generated] */
  readonly secret?: string | undefined
}

/** How one webhook differs from others. */
export interface SendOptions {
  /** Names the webhook, up to 256 characters: a second one with the same id is not sent to the same endpoint. [none] */
  readonly id?: string | undefined
  /** Whose data the webhook has, such as `customer:42`. Only a digest is stored; `shift.erase` removes the data of a subject. [none] */
  readonly subject?: string | undefined
  /** Your own transaction. The webhook is sent once it commits. [none] */
  readonly tx?: Transaction | undefined
}

/** A webhook that was stored for one endpoint. `id` is that of its job, and the same in every attempt. */
export interface SentWebhook {
  /** Id of the job. `shift.job(id)` shows its attempts, and `shift.requeue(id)` sends it again. */
  readonly id: string
  /** Id of the endpoint. */
  readonly endpoint: string
  /** `deduplicated` if a webhook with the same id was stored before; then `id` is that one. */
  readonly outcome: "enqueued" | "deduplicated"
}

/** Endpoints of customers, and webhooks to them. The jobs that send have the endpoint's id as their key. */
export interface EndpointAdmin {
  /** Stores an endpoint. The secret is returned only here and by `rotate`. Rejects with InvalidOptionError. */
  create(endpoint: NewEndpoint): Promise<EndpointWithSecretView>
  /** The endpoint with this id. Rejects with InvalidOptionError if there is none. */
  get(id: string): Promise<EndpointView>
  /** Endpoints, newest first: an async iterable that reads them in pages. */
  list(filter?: EndpointFilter): Listing.Listing<EndpointView>
  /** Changes the given fields only. */
  change(id: string, patch: EndpointPatch): Promise<EndpointView>
  /** Replaces the secret. The previous one also signs for a while, so that the customer can change it without a gap. */
  rotate(id: string, options?: RotateOptions): Promise<EndpointWithSecretView>
  /** Stops sending. Webhooks that become due while it is disabled are dead, and can be resent. */
  disable(id: string): Promise<EndpointView>
  /** Sends again, and forgets the failures. To resend what failed, requeue the dead jobs with the endpoint as key. */
  enable(id: string): Promise<EndpointView>
  /** Deletes the endpoint and its secrets. */
  remove(id: string): Promise<void>
  /** Stores a webhook for one endpoint, or for those of a customer that want its type. Resolves when it is durable. */
  send(to: SendTo, data: unknown, options?: SendOptions): Promise<ReadonlyArray<SentWebhook>>
}

const newEndpoint = namesOf<NewEndpoint>({ url: 0, customer: 0, description: 0, types: 0, secret: 0 })
const patchNames = namesOf<EndpointPatch>({ url: 0, description: 0, types: 0 })
const filterNames = namesOf<EndpointFilter>({ limit: 0, customer: 0, standing: 0 })
const rotateNames = namesOf<RotateOptions>({ keep: 0, secret: 0 })
const sendNames = namesOf<SendOptions>({ id: 0, subject: 0, tx: 0 })
const toNames = namesOf<SendTo>({ type: 0, endpoint: 0, customer: 0 })

const isStanding = Schema.is(standings)

const fieldsOf = PlainFields.of(Response.EndpointView)

/** @internal */
export const viewOf = (endpoint: Endpoint): EndpointView => fieldsOf(Response.described(endpoint))

/** @internal */
export const make = ({ run }: Engine<Ports>): EndpointAdmin => {
  const call = <A, E>(use: (endpoints: typeof Endpoints.Service) => Effect.Effect<A, E>) =>
    run(Effect.flatMap(Endpoints, use))
  const ofOne = async <A, E>(
    method: string,
    given: unknown,
    use: (endpoints: typeof Endpoints.Service, id: string) => Effect.Effect<A, E>
  ) => {
    const id = textOf("id", `endpoints.${method}`, given)
    return call((endpoints) => use(endpoints, id))
  }
  return {
    create: async (given) => {
      checkKnown(given, newEndpoint, "a field of an endpoint")
      const { secret, ...made } = await call((endpoints) => endpoints.create(given))
      return { ...viewOf(made), secret }
    },
    get: async (given) => viewOf(await ofOne("get", given, ({ get }, id) => get(id))),
    list: ({ limit, ...filter } = {}) => {
      checkKnown(filter, filterNames, "a filter of endpoints")
      if (filter.standing !== undefined && !isStanding(filter.standing))
        throw new InvalidOptionError(
          "standing",
          `standing must be one of ${standings.literals.join(", ")}, got ${shown(filter.standing)}.`
        )
      return Listing.make(
        async (request) => {
          const { endpoints, next } = await call(({ list }) => list({ ...filter, ...request }))
          return { items: endpoints.map(viewOf), next }
        },
        { limit }
      )
    },
    change: async (given, patch) => {
      checkKnown(patch, patchNames, "a field of an endpoint that can be changed")
      return viewOf((await ofOne("change", given, ({ change }, id) => change(id, patch))).after)
    },
    rotate: async (given, options = {}) => {
      checkKnown(options, rotateNames, "an option of rotate")
      const keep = options.keep === undefined ? usualKeep : durationOf("keep", options.keep)
      const { secret, ...made } = await ofOne("rotate", given, ({ rotate }, id) => rotate(id, keep, options.secret))
      return { ...viewOf(made), secret }
    },
    disable: async (given) => viewOf((await ofOne("disable", given, ({ enable }, id) => enable(id, false))).after),
    enable: async (given) => viewOf((await ofOne("enable", given, ({ enable }, id) => enable(id, true))).after),
    remove: async (given) => void (await ofOne("remove", given, ({ remove }, id) => remove(id))),
    send: async (to, data, options = {}) => {
      checkKnown(to, toNames, "a field of the first argument of send")
      checkKnown(options, sendNames, "an option of send")
      const inside = options.tx === undefined ? undefined : statementsOf(options.tx)
      return run(Webhook.send(to, data, { id: options.id, subject: options.subject }, inside))
    }
  }
}

/**
 * The handler that sends webhooks to the endpoints of customers. Add it to a worker that serves the queue `webhooks`.
 *
 * @example
 * ```ts
 * import { connect, webhookHandler, worker } from "nightshift/client"
 *
 * const shift = await connect()
 * await worker(shift, { handlers: [webhookHandler()], queues: { webhooks: { workers: 20, perKey: 2 } } })
 * const { secret } = await shift.endpoints.create({ url: "https://customer.example.org/hooks", customer: "acme" })
 * console.log("give this to the customer:", secret)
 * await shift.endpoints.send({ customer: "acme", type: "order.paid" }, { order: "A-17" })
 * ```
 */
export const webhookHandler = (): Handler =>
  // Every worker of a shift has the service of endpoints.
  PromiseHandler.of({}, Webhook.handler as unknown as PromiseHandler.CoreHandler, {
    call: "webhooks",
    name: Webhook.kind.name,
    options: undefined,
    run: undefined
  })
